"""The wire, without an SDK: a strict bounded codec, two transports, two protocol eras, a log of every exchange."""
