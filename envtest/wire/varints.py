"""The wire format of protocol buffers: numbers, lengths, and nothing of what they mean."""

from collections.abc import Iterator

_SMALL = tuple(bytes((value,)) for value in range(0x80))


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at an offset and the offset behind it.

    Raises:
        IndexError: the data ends within it.
        ValueError: it has more than 64 bits.
    """
    value = data[at]
    if value < 0x80:
        return value, at + 1
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number has more than 64 bits")


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (field number, value) of one message; texts and messages are bytes.

    Raises:
        IndexError, ValueError: this is no message.
    """
    at, end = 0, len(data)
    while at < end:
        tag, at = varint(data, at)
        match tag & 7:
            case 0:
                value, at = varint(data, at)
                yield tag >> 3, value
            case 2:
                length, at = varint(data, at)
                if at + length > end:
                    raise ValueError("a field is longer than the message")
                yield tag >> 3, data[at : at + length]
                at += length
            case 1 | 5 as width:
                size = 8 if width == 1 else 4
                yield tag >> 3, data[at : at + size]
                at += size
            case other:
                raise ValueError(f"wire type {other} is not used")


def number(value: int) -> bytes:
    """Return a number as a varint; a negative one as the 64 bits of its two's complement."""
    if 0 <= value < 0x80:
        return _SMALL[value]
    value %= 2**64
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def delimited(value: bytes) -> bytes:
    """Return a text or message behind its length."""
    length = len(value)
    return (_SMALL[length] if length < 0x80 else number(length)) + value


def bytes_field(at: int, value: bytes) -> bytes:
    """Return a text or message as the field of a number."""
    return number(at << 3 | 2) + delimited(value)
