"""Is a model as often right as it is sure? Reliability of the likeliest id, and the expected calibration error.

Source: Guo, Pleiss, Sun & Weinberger 2017, "On calibration of modern neural networks".
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

BINS = 20  # of confidence, equally wide

Floats = npt.NDArray[np.float64]


@dataclass(eq=False)
class Calibration:
    """What was seen so far, in bins of confidence: the probability of the likeliest id.

    counts: (BINS,) predictions.
    confidence: (BINS,) the sum of their confidences.
    right: (BINS,) those whose likeliest id followed.
    """

    counts: Floats = field(default_factory=lambda: np.zeros(BINS))
    confidence: Floats = field(default_factory=lambda: np.zeros(BINS))
    right: Floats = field(default_factory=lambda: np.zeros(BINS))

    def __call__(self, logits: Tensor, followed: Tensor) -> None:
        """Add (n, V) logits and the (n,) ids that followed."""
        sure, likeliest = logits.softmax(dim=-1).max(dim=-1)  # (n,), (n,)
        number = (sure * BINS).long().clamp(max=BINS - 1).cpu()
        hit = (likeliest == followed).double().cpu()
        self.counts += torch.bincount(number, minlength=BINS).double().numpy()
        self.confidence += torch.bincount(number, sure.double().cpu(), BINS).numpy()
        self.right += torch.bincount(number, hit, BINS).numpy()

    @property
    def error(self) -> float:
        """The expected calibration error: how far confidence is from the share that is right, on average."""
        return float(np.abs(self.confidence - self.right).sum() / self.counts.sum())

    def to_json(self) -> dict[str, Any]:
        """The error, and the bins that are not empty."""
        filled = np.flatnonzero(self.counts)
        bins = [
            {
                "predictions": int(self.counts[i]),
                "confidence": float(self.confidence[i] / self.counts[i]),
                "right": float(self.right[i] / self.counts[i]),
            }
            for i in filled
        ]
        return {"error": self.error, "bins": bins}
