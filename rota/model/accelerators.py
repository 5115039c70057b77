"""The accelerators by name: what their makers print, and what a cloud asks for an hour.

Peak rates, bandwidth and memory are NVIDIA's data sheets: Tesla K80, M60 and P100 (PCIe, 16 GB), V100 (SXM2, 16 GB), T4, Quadro
RTX 5000, A10, A100 (SXM4, 40 GB), L40S, H100, H200 and B200 (SXM). Tensor rates are the dense ones, without structured sparsity.
K80 and M60 carry two GPUs on a board; the figures are those of one, the K80's at its base clock, since the two share 300 W.

Prices are public on-demand list prices of large clouds (AWS; Google for the P100; Paperspace for the RTX 5000), per GPU, rounded.
They change every year: read them as orders of magnitude.

`link_gb_s` is what an all-reduce inside a node gets out of the link, not what the link could carry: around 3 GB/s over PCIe 3
through the host's memory, a third to three quarters of NVLink's one-way rate where there is NVLink.
"""

from collections.abc import Mapping
from dataclasses import dataclass

BETWEEN_NODES_GB_S = 12.5
"""Network between nodes when nobody says: 100 Gb/s."""

REFERENCE = "V100"
"""The type that traces measure run times on, and that an unknown type counts as."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One GPU."""

    name: str
    year: int
    fp32_tflops: float
    """Peak of the plain single-precision units."""
    tf32_tflops: float
    """Peak of the tensor cores on single-precision inputs; where they take none, the same as `fp32_tflops`."""
    half_tflops: float
    """Peak of the tensor cores in half precision; where there are none, the same as `fp32_tflops`."""
    bandwidth_gb_s: float
    memory_gib: float
    link_gb_s: float
    """What an all-reduce inside a node gets."""
    dollars_per_hour: float


def _card(
    name: str, year: int, tflops: tuple[float, float, float], bandwidth: float, memory: float, link: float, dollars: float
) -> Accelerator:
    fp32, tf32, half = tflops
    return Accelerator(
        name=name,
        year=year,
        fp32_tflops=fp32,
        tf32_tflops=tf32,
        half_tflops=half,
        bandwidth_gb_s=bandwidth,
        memory_gib=memory,
        link_gb_s=link,
        dollars_per_hour=dollars,
    )


# fmt: off
_CARDS = (
    #                   TFLOPS: fp32, tf32, half   GB/s    GiB  link    $/h
    _card("K80",     2014, (2.8,   2.8,   2.8),     240.0,  12,   3.0,  0.90),
    _card("M60",     2015, (4.8,   4.8,   4.8),     160.0,   8,   3.0,  0.75),
    _card("P100",    2016, (9.3,   9.3,   9.3),     732.0,  16,   3.0,  1.46),
    _card("V100",    2017, (15.7, 15.7, 125.0),     900.0,  16,  50.0,  3.06),
    _card("T4",      2018, (8.1,   8.1,  65.0),     320.0,  16,   3.0,  0.53),
    _card("RTX5000", 2018, (11.2, 11.2,  89.2),     448.0,  16,   3.0,  0.82),
    _card("A100",    2020, (19.5, 156.0, 312.0),   1555.0,  40, 230.0,  4.10),
    _card("A10",     2021, (31.2, 62.5, 125.0),     600.0,  24,   6.0,  1.01),
    _card("H100",    2022, (67.0, 494.0, 989.0),   3350.0,  80, 340.0,  6.88),
    _card("L40S",    2023, (91.6, 183.0, 362.0),    864.0,  48,  12.0,  1.86),
    _card("H200",    2024, (67.0, 494.0, 989.0),   4800.0, 141, 340.0,  7.91),
    _card("B200",    2025, (75.0, 1125.0, 2250.0), 8000.0, 180, 680.0, 14.24),
)
# fmt: on

ACCELERATORS: Mapping[str, Accelerator] = {card.name: card for card in _CARDS}
"""By the name clusters are described with, oldest first."""
