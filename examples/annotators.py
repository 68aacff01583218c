"""Three people label at once; one goes home without answering, one takes an answer back.

python examples/annotators.py
"""

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from understudy import Surrogate


def main() -> None:
    features, labels = load_digits(return_X_y=True)
    features = features / 16
    s = Surrogate(features, n_classes=10)

    first = s.ask(30)  # there is no learner yet: influence alone chooses
    s.tell(first, labels[first])
    learner = LogisticRegression(max_iter=1000).fit(features[first], labels[first])
    probs = learner.predict_proba(features)
    if probs.shape[1] < 10:
        raise SystemExit("some class was not met among the first labels; ask for a few more")
    s.anchor(probs, trained_on=first)

    ann, bob, cleo = s.ask(3)  # three different rows, each chosen with the others in mind
    print(s.explain(ann))
    s.tell(cleo, labels[cleo])  # answers come in any order
    s.tell(ann, labels[ann])
    s.release(bob)  # Bob has left: his row goes back to the pool
    s.undo()  # Ann pressed the wrong key: the surrogate unlearns it, and the row waits for her again
    s.tell(ann, labels[ann])
    print(s, f"the learner was right on {s.accuracy:.0%} of the rows asked since its training")


if __name__ == "__main__":
    main()
