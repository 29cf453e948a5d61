"""What was published: figures as their authors give them, each with its hardware and its source.

A `Figure` with `seconds` can be drawn beside ours; `at` says where on the item's axis.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

SOURCES = {
    "A": "Yang, Schuemie, Ji and Suchard: massive parallelization of massive sample-size survival "
    "analysis",
    "B": "Suchard, Simpson, Zorych, Ryan and Madigan (2013): massive parallelization of serial "
    "inference algorithms for a complex generalized linear model",
    "C": "Yang, Schuemie and Suchard: efficient GPU-accelerated fitting of stratified and "
    "time-varying Cox models",
    "D": "Tian (2018): GPU logistic and conditional logistic regression, slides",
    "E": "Cesnovar and Strumbelj (2017): Bayesian lasso and multinomial logistic regression on GPU",
}
HOUR, MINUTE, DAY = 3_600.0, 60.0, 86_400.0


@dataclass(frozen=True)
class Figure:
    """One published number or range, as text, perhaps in seconds, and where it was measured."""

    what: str
    value: str
    hardware: str
    seconds: float | None = None
    at: float | None = None

    def record(self, paper):
        """As an item keeps it."""
        return {"paper": paper, "source": SOURCES[paper], **asdict(self)}


def _pair(what, cpu, gpu, gpu_name, *, at=None, cpu_text=None, gpu_text=None):
    """The same on a CPU and a GPU, in seconds."""
    return (
        Figure(what, cpu_text or f"{cpu:,g} s", "their CPU", cpu, at),
        Figure(what, gpu_text or f"{gpu:,g} s", gpu_name, gpu, at),
    )


def _clogit(size, clogit, cpu, gpu, at):
    return (
        Figure(size, f"{clogit:g} s", "clogit (R survival), CPU", clogit, at),
        *_pair(size, cpu, gpu, "Tesla K40", at=at),
    )


PUBLISHED = {
    "fusion": (
        Figure("fused, a coordinate, n = 100,000", "0.0052 ms", "Quadro GV100", 5.2e-6),
        Figure("partially fused", "0.0071 ms", "Quadro GV100", 7.1e-6),
        Figure("separate", "0.0579 ms", "Quadro GV100", 5.79e-5),
    ),
    "sizes": (
        Figure("gradients and Hessians, n = 10^6", "42 x their CPU", "Quadro GV100"),
        Figure("gradients and Hessians, Cox, n = 10^6", "52 x their CPU", "A100"),
        Figure("gradients and Hessians, Fine-Gray, n = 10^6", "70 x their CPU", "A100"),
        Figure("whole fit, Cox, n = 10^6", "35 x their CPU", "Quadro GV100"),
        Figure("whole fit, Fine-Gray, n = 10^6", "39 x their CPU", "Quadro GV100"),
    ),
    "threads": (
        Figure("Cox, 10 x 10, auto, n = 10^6", "about 9 h", "8 threads of their CPU", 9 * HOUR, 8),
        Figure("Cox, 10 x 10, auto, n = 10^6", "14 min", "8 streams of a GPU", 14 * MINUTE, 8),
    ),
    "real_data": (
        *_pair(
            "Cox, 10 x 10 folds",
            2 * DAY,
            3.87 * HOUR,
            "GPU",
            cpu_text="almost 2 days, 8 cores",
            gpu_text="3.87 h",
        ),
        *_pair(
            "Fine-Gray, 10 x 10 folds",
            3 * DAY,
            8.57 * HOUR,
            "GPU",
            cpu_text="over 3 days, 8 cores",
            gpu_text="8.57 h",
        ),
        Figure("covariates selected, Cox", "215 of 9,811", "-"),
        Figure("covariates selected, Fine-Gray", "134 of 9,811", "-"),
    ),
    "eras": (
        Figure("largest series: dense, CPU", "51 h", "their CPU", 51 * HOUR, 75e6),
        Figure("largest series: sparse, GPU", "29 s", "their GPU", 29.0, 75e6),
        Figure("sparse over dense", "181 x", "their CPU"),
        Figure("GPU over CPU, both sparse", "37 x", "their GPU"),
    ),
    "variance": (
        Figure("10 folds on a log grid of variances, warm starts", "no time of its own", "-"),
    ),
    "drugs": (
        Figure(
            "intervals of 441 drugs: 76 thousand subjects, 1,162 drugs, 2.1 million eras",
            "200 replicates",
            "their GPU",
        ),
    ),
    "strata": (
        *_pair("n = 10^6, 50,000 strata", 17 * MINUTE, 23.0, "GPU", at=50_000, cpu_text="17 min"),
        Figure("GPU over CPU, n = 10^6", "43 x", "GPU"),
        Figure("GPU over CPU, n = 10^5", "13 x", "GPU"),
    ),
    "few_strata": (
        *_pair(
            "946,911 x 9,977, 10 folds, 5 strata",
            16.2 * HOUR,
            1.41 * HOUR,
            "GPU",
            at=5,
            cpu_text="16.2 h",
            gpu_text="1.41 h",
        ),
        *_pair(
            "10 strata",
            15.8 * HOUR,
            1.38 * HOUR,
            "GPU",
            at=10,
            cpu_text="15.8 h",
            gpu_text="1.38 h",
        ),
        *_pair(
            "20 strata",
            18.0 * HOUR,
            1.57 * HOUR,
            "GPU",
            at=20,
            cpu_text="18.0 h",
            gpu_text="1.57 h",
        ),
    ),
    "time_varying": _pair(
        "407,828 x 9,666 (812,432 rows), 10 folds",
        21.6 * HOUR,
        1.86 * HOUR,
        "GPU",
        cpu_text="21.6 h",
        gpu_text="1.86 h",
    ),
    "logistic": _pair("50,000 x 1,000, lasso", 296.0, 14.1, "Tesla K40", at=5e7),
    "logistic_cv": (
        Figure("10,000 x 5,000, 10 x 10", "36 h (estimated)", "their CPU", 36 * HOUR, 5e7),
        Figure("10,000 x 5,000, 10 x 10", "181 s", "Tesla K40", 181.0, 5e7),
    ),
    "conditional": (
        *_clogit("2,000 / 100 / 100", 11.5, 12.6, 6.2, 2_000),
        *_clogit("20,000 / 100 / 1,000", 313.0, 112.0, 10.9, 20_000),
    ),
    "lasso": (Figure("p = 2,000-3,000", "up to 150 x", "GPU over one core of their CPU"),),
    "multinomial": (Figure("n to 506,450", "up to 100 x", "GPU over one core of their CPU"),),
    "polya_gamma": (Figure("draws", "50-100 x", "GPU over one core of their CPU"),),
    "components": (Figure("shares of a sweep by component", "a figure, no numbers kept", "-"),),
    "convergence": (Figure("convergence at full size", "a figure, no R-hat", "-"),),
    "certificates": (),
    "coverage": (),
    "scaling": (),
}
