"""The version of this program, for files that leave it."""

VERSION = "0.1.0"
