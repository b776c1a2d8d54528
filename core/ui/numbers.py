"""How numbers are written, for the pages: `core.numbers` under the name by which they know it."""

from core.numbers import age as age
from core.numbers import cache_size as cache_size
from core.numbers import cost as cost
from core.numbers import counted as counted
from core.numbers import duration as duration
from core.numbers import file_size as file_size
from core.numbers import fraction as fraction
from core.numbers import interval as interval
from core.numbers import millions as millions
from core.numbers import milliseconds as milliseconds
from core.numbers import parameters as parameters
from core.numbers import ratio as ratio
from core.numbers import speed as speed
from core.numbers import when as when
