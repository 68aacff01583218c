"""The package's exceptions. Each message says what came and what to do about it."""


class UnderstudyError(ValueError):
    """Something the caller can mend: a bad value, a wrong shape, a call out of turn."""


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
    """A decision could not be put on the disk. It did not happen; send it again."""
