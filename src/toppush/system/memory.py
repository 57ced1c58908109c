"""What the operating system lets a process have."""

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]


def is_limited() -> bool:
    """Whether the address space of this process is limited, as by `ulimit -v`."""
    if resource is None:
        return False
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
