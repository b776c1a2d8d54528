"""What a target and its draft take of a GPU's memory, and what remains for requests: one door to three files.

Units: bytes everywhere; pages show GB (1e9) for weights and GiB (2^30) for cache.
"""

from core.memory_cache import ENGINES as ENGINES
from core.memory_cache import KV_DTYPES as KV_DTYPES
from core.memory_cache import CacheProfile as CacheProfile
from core.memory_cache import CacheSize as CacheSize
from core.memory_cache import Engine as Engine
from core.memory_cache import LayerCache as LayerCache
from core.memory_cache import LayerKind as LayerKind
from core.memory_cache import formula_kv_bytes_per_token as formula_kv_bytes_per_token
from core.memory_cache import kv_cache_bytes as kv_cache_bytes
from core.memory_curve import Curve as Curve
from core.memory_curve import memory_curve as memory_curve
from core.memory_fit import Fit as Fit
from core.memory_fit import GpuMemory as GpuMemory
from core.memory_fit import ModelMemory as ModelMemory
from core.memory_fit import Parts as Parts
from core.memory_fit import Room as Room
from core.memory_fit import fit as fit
from core.memory_fit import model_memory as model_memory
