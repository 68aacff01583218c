"""The package's exceptions. Each message says what came and what to do about it."""


class UnderstudyError(ValueError):
    """An error that the caller can fix: a bad value, a wrong shape, a call in the wrong order."""


class UsageError(UnderstudyError):
    """The call itself is wrong: an unknown name, an impossible option or value, a file that is not there.

    The command line exits with 2 for it, and with 1 for every other error.
    """


class PoolExhausted(UnderstudyError):
    """More rows were asked for than are left to ask."""


class NotPositiveDefinite(UnderstudyError):
    """The covariance of the basis points could not be factorised."""


class NotFound(UnderstudyError):
    """There is no such item, class or file."""


class Conflict(UnderstudyError):
    """What was asked for does not go with what has happened since, or with who else is at it."""


class NotStored(UnderstudyError):
    """A decision could not be put on the disk. It did not happen; send it again.

    `public` is what those who only label are told: the message may name paths and addresses of the server.
    """

    def __init__(self, message: str, public: str = "") -> None:
        super().__init__(message)
        self.public = public or "the server could not store this; its terminal says why. Send it again later"
