"""The wire, by hand: a strict bounded codec, two transports, two protocol eras, and a log of every exchange."""
