"""One module a kernel, same stem as its shader: the launcher (checks, sizes) and `reference`, its NumPy twin."""
