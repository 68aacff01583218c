"""Learners: heads on features, a network on images, any scikit-learn classifier, your own training script."""
