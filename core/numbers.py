"""How numbers are written, everywhere the same: ratios with two decimals and an x, steps in ms."""

from datetime import UTC, datetime


def ratio(value: float) -> str:
    """A speedup: 1.29x."""
    return f"{value:.2f}x"


def interval(bounds: tuple[float, float] | None) -> str:
    """An interval in brackets, [1.26, 1.32]; empty when there is none."""
    return f"[{bounds[0]:.2f}, {bounds[1]:.2f}]" if bounds else ""


def speed(value: float) -> str:
    """A speedup in words that cannot be read as "so much more": 1.29x the speed of plain."""
    return f"{ratio(value)} the speed of plain"


def cost(value: float) -> str:
    """A price in plain target steps, with a third decimal where two would say too little: 0.11, 0.008."""
    return f"{value:.3f}" if 0 < value < 0.01 else f"{value:.2f}"


def counted(number: int, word: str) -> str:
    """A count with its word: 1 prompt, 12 prompts."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def milliseconds(seconds: float) -> str:
    """A step: 12.2 ms."""
    return f"{seconds * 1000:.1f} ms"


def duration(seconds: float) -> str:
    """A stretch of time: 41 s, 3 min 41 s, 1 h 02 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def when(moment: datetime) -> str:
    """A date and time in the server's own time zone."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return aware.astimezone().strftime("%Y-%m-%d %H:%M")


def millions(count: int) -> str:
    """Parameters of a model: 13.7M."""
    return f"{count / 1e6:,.1f}M"


def parameters(count: int) -> str:
    """Parameters of any model: 134.5 M, 1.71 B."""
    return f"{count / 1e9:,.2f} B" if count >= 1e9 else f"{count / 1e6:,.1f} M"


def fraction(part: int, whole: int) -> str:
    """A model's size beside another's: 1/13, 1/4.7; 99 % where it is nearly as large; 2.0 times where it is larger."""
    share = whole / part
    if 1 / 1.05 < share < 1.05:
        return f"{100 / share:.0f} %"
    if share < 1:
        return f"{1 / share:.1f} times"
    return f"1/{share:,.0f}" if share >= 10 else f"1/{share:.1f}"


def file_size(count: int) -> str:
    """Bytes on disk or over the network, in powers of ten: 9.1 MB, 3.42 GB."""
    if count >= 1e9:
        return f"{count / 1e9:,.2f} GB"
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"


def cache_size(count: int) -> str:
    """Bytes of cache, in powers of two: 22.5 KiB, 192 KiB, 1.2 MiB."""
    size, unit = (count / 2**20, "MiB") if count >= 2**20 else (count / 2**10, "KiB")
    return f"{size:,.0f} {unit}" if size >= 100 else f"{size:.1f} {unit}"


def age(seconds: float) -> str:
    """How long ago something was read: just now, 5 minutes ago, 2 days ago."""
    for length, word in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= length:
            return f"{counted(int(seconds // length), word)} ago"
    return "just now"
