"""The package's exceptions. Each message says what came and what to do about it."""


class UnderstudyError(ValueError):
    """Something the caller can mend: a bad value, a wrong shape, a call out of turn."""


class PoolExhausted(UnderstudyError):
    """More rows were asked for than are left to ask."""


class NotPositiveDefinite(UnderstudyError):
    """The covariance of the basis points could not be factorised."""
