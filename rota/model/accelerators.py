"""Accelerator types by name, with their makers' figures and their price per hour.

Peak rates, bandwidth and memory are the figures that the maker published; every row names its source. Tensor rates are dense,
without structured sparsity, and accumulate in single precision. K80 and M60 carry two GPUs on a board; the figures are those of
one GPU, and those of the K80 are at its base clock, since its two GPUs share 300 W.

Prices are public on-demand list prices per GPU, rounded: of AWS; of Google for the P100; of Paperspace for the RTX 5000 and the
A6000; of Oracle for the MI300X; of RunPod for the RTX 4090. They change every year, so take them as orders of magnitude.

`link_gb_s` is the bandwidth that an all-reduce inside a node reaches, which is less than the link's: around 3 GB/s over PCIe 3
through the host's memory, around 6 over PCIe 4, twice that between GPUs that reach each other directly, and a third to three
quarters of the one-way rate of NVLink or Infinity Fabric.
"""

from collections.abc import Mapping
from dataclasses import dataclass

BETWEEN_NODES_GB_S = 12.5
"""Assumed network bandwidth between nodes, in GB/s: a link of 100 Gb/s."""

REFERENCE = "V100"
"""Accelerator type on which traces measure run times, and whose speed is assumed for unknown types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """Figures of one GPU."""

    name: str
    year: int
    fp32_tflops: float
    """Peak of the single-precision units, in TFLOPS."""
    tf32_tflops: float
    """Peak of the tensor cores on single-precision inputs, in TFLOPS; `fp32_tflops` if they do not take such inputs."""
    half_tflops: float
    """Peak of the tensor cores in half precision, in TFLOPS; `fp32_tflops` if there are none."""
    bandwidth_gb_s: float
    memory_gib: float
    link_gb_s: float
    """Bandwidth of an all-reduce inside a node, in GB/s."""
    dollars_per_hour: float
    source: str
    """Source of the peaks, the bandwidth and the memory."""


def _card(
    name: str,
    year: int,
    tflops: tuple[float, float, float],
    bandwidth: float,
    memory: float,
    link: float,
    dollars: float,
    source: str,
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
        source=source,
    )


# fmt: off
_CARDS = (
    #                   TFLOPS: fp32, tf32, half    GB/s    GiB  link    $/h
    _card("K80",     2014, (2.8,    2.8,    2.8),   240.0,  12,   3.0,  0.90, "NVIDIA, Tesla K80 board specification"),
    _card("M60",     2015, (4.8,    4.8,    4.8),   160.0,   8,   3.0,  0.75, "NVIDIA, Tesla M60 data sheet"),
    _card("P100",    2016, (9.3,    9.3,    9.3),   732.0,  16,   3.0,  1.46, "NVIDIA, Tesla P100 data sheet (PCIe, 16 GB)"),
    _card("V100",    2017, (15.7,  15.7,  125.0),   900.0,  16,  50.0,  3.06, "NVIDIA, V100 data sheet (SXM2, 16 GB)"),
    _card("V100M16", 2017, (15.7,  15.7,  125.0),   900.0,  16,  50.0,  3.06, "NVIDIA, V100 data sheet; the name is Alibaba's"),
    _card("V100M32", 2018, (15.7,  15.7,  125.0),   900.0,  32,  50.0,  3.06, "NVIDIA, V100 data sheet; the name is Alibaba's"),
    _card("T4",      2018, (8.1,    8.1,   65.0),   320.0,  16,   3.0,  0.53, "NVIDIA, T4 data sheet"),
    _card("RTX5000", 2018, (11.2,  11.2,   89.2),   448.0,  16,   3.0,  0.82, "NVIDIA, Quadro RTX 5000 data sheet"),
    _card("A100",    2020, (19.5, 156.0,  312.0),  1555.0,  40, 230.0,  4.10, "NVIDIA, A100 data sheet (SXM4, 40 GB)"),
    _card("A6000",   2020, (38.7,  77.4,  154.8),   768.0,  48,  12.0,  1.89, "NVIDIA, RTX A6000 data sheet; GA102 white paper"),
    _card("A10",     2021, (31.2,  62.5,  125.0),   600.0,  24,   6.0,  1.01, "NVIDIA, A10 data sheet"),
    _card("H100",    2022, (67.0, 494.0,  989.0),  3350.0,  80, 340.0,  6.88, "NVIDIA, H100 data sheet (SXM)"),
    _card("RTX4090", 2022, (82.6,  82.6,  165.2),  1008.0,  24,   6.0,  0.69, "NVIDIA, Ada white paper, GeForce RTX 4090"),
    _card("L4",      2023, (30.3,  60.0,  121.0),   300.0,  24,   6.0,  0.80, "NVIDIA, L4 data sheet"),
    _card("L40S",    2023, (91.6, 183.0,  362.0),   864.0,  48,  12.0,  1.86, "NVIDIA, L40S data sheet"),
    _card("MI300X",  2023, (163.4, 653.7, 1307.4), 5300.0, 192, 300.0,  6.00, "AMD, Instinct MI300X data sheet"),
    _card("H200",    2024, (67.0, 494.0,  989.0),  4800.0, 141, 340.0,  7.91, "NVIDIA, H200 data sheet (SXM)"),
    _card("B200",    2025, (75.0, 1125.0, 2250.0), 8000.0, 180, 680.0, 14.24, "NVIDIA, B200 data sheet (SXM)"),
)
# fmt: on

ACCELERATORS: Mapping[str, Accelerator] = {card.name: card for card in _CARDS}
"""Figures by the name that describes the type in clusters, oldest first."""

WITHOUT_FIGURES = (
    *("A2", "A16", "A30", "A40", "A800", "A1000", "A2000", "A4000", "A4500", "A5000", "A5500", "B100", "B300"),
    *("GB200", "GB300", "GH200", "GTX1080", "H20", "H800", "L2", "L20", "L40", "M10", "M40", "MI50", "MI100"),
    *("MI210", "MI250", "MI250X", "MI300A", "MI325X", "MI350X", "MI355X", "P4", "P6", "P40", "RTX2080", "RTX3080"),
    *("RTX3090", "RTX4000", "RTX4080", "RTX5080", "RTX5090", "RTX6000", "RTX8000", "T4G", "V100S"),
)
"""Other types that exist. Each is assumed to be as fast as `REFERENCE`, without a warning that its name may be mistyped."""
