"""The wire protocol without an SDK: a strict, bounded codec, two transports, two eras, and a log of every exchange."""
