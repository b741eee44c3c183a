"""Waiting for a fact, with a bound."""
import time


def until(fact, seconds, every=0.5):
    """What `fact()` is once it is true, or None when the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = fact()
        if found:
            return found
        time.sleep(every)
    return None
