"""To be written."""


def recognises(path):
    return False
