"""A plain implementation of nanoGPT's recipe for characters: float32, eager mode, one loop.

The computations and their order follow nanoGPT (Karpathy 2022, MIT): GPT-2 blocks without biases, tied embeddings,
unfused AdamW, warm-up and cosine decay, batches of random windows, and the loss estimated on a few batches at
intervals. docs/dev/log.md compares time and loss with the original.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bukva.text.ids import Ids


@dataclass(frozen=True)
class Shape:
    """Size of the model; the defaults are nanoGPT's for a CPU."""

    vocab_size: int
    n_layer: int = 4
    n_head: int = 4
    n_embd: int = 128
    block_size: int = 64
    dropout: float = 0.0


@dataclass(frozen=True)
class Recipe:
    """Hyperparameters of the training; the defaults are nanoGPT's for a CPU."""

    n_steps: int = 2000
    batch_size: int = 12
    learning_rate: float = 1e-3
    min_learning_rate: float = 1e-4
    warmup_steps: int = 100
    beta2: float = 0.99
    weight_decay: float = 0.1
    grad_clip: float = 1.0
    eval_every: int = 250
    eval_batches: int = 20


class Block(nn.Module):
    """Transformer block: attention and an MLP, each with a LayerNorm before it and a residual connection."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        C = shape.n_embd
        self.n_head, self.p = shape.n_head, shape.dropout
        self.ln_1, self.ln_2 = nn.LayerNorm(C, bias=False), nn.LayerNorm(C, bias=False)
        self.qkv, self.attention_proj = nn.Linear(C, 3 * C, bias=False), nn.Linear(C, C, bias=False)
        self.fc, self.mlp_proj = nn.Linear(C, 4 * C, bias=False), nn.Linear(4 * C, C, bias=False)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: Tensor) -> Tensor:  # (B, T, C)
        B, T, C = x.shape
        q, k, v = (
            heads.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
            for heads in self.qkv(self.ln_1(x)).split(C, 2)
        )  # (B, nh, T, hs)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p if self.training else 0.0, is_causal=True)
        x = x + self.dropout(self.attention_proj(y.transpose(1, 2).contiguous().view(B, T, C)))
        return x + self.dropout(self.mlp_proj(F.gelu(self.fc(self.ln_2(x)))))


class PlainGPT(nn.Module):
    """GPT-2 for characters."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        V, C = shape.vocab_size, shape.n_embd
        self.block_size = shape.block_size
        self.wte, self.wpe = nn.Embedding(V, C), nn.Embedding(shape.block_size, C)
        self.dropout = nn.Dropout(shape.dropout)
        self.blocks = nn.Sequential(*(Block(shape) for _ in range(shape.n_layer)))
        self.ln_f = nn.LayerNorm(C, bias=False)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                is_proj = name.endswith("_proj.weight")
                nn.init.normal_(weight, std=0.02 / (2 * shape.n_layer) ** 0.5 if is_proj else 0.02)

    def forward(self, ids: Tensor) -> Tensor:
        """Return (B, T, V) logits for (B, T) ids."""
        x = self.dropout(self.wte(ids) + self.wpe(torch.arange(ids.shape[1])))
        return self.ln_f(self.blocks(x)) @ self.wte.weight.T


class PlainTraining:
    """A model, its optimizer and its batches."""

    def __init__(self, shape: Shape, recipe: Recipe, train: Ids, val: Ids, seed: int) -> None:
        torch.manual_seed(seed)
        self.recipe, self.splits = recipe, {"train": train, "val": val}
        self.model = PlainGPT(shape)
        matrices = [weight for weight in self.model.parameters() if weight.dim() >= 2]
        gains = [weight for weight in self.model.parameters() if weight.dim() < 2]
        self.optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": recipe.weight_decay}, {"params": gains, "weight_decay": 0.0}],
            lr=recipe.learning_rate,
            betas=(0.9, recipe.beta2),
        )

    def loss(self, split: str) -> Tensor:
        """Return the mean loss, in nats per character, of a batch of random windows, which are read one by one."""
        ids, T = self.splits[split], self.model.block_size
        starts = torch.randint(len(ids) - T, (self.recipe.batch_size,))
        x = torch.stack([torch.from_numpy(ids[start : start + T].astype(np.int64)) for start in starts])  # (B, T)
        y = torch.stack([torch.from_numpy(ids[start + 1 : start + 1 + T].astype(np.int64)) for start in starts])
        return F.cross_entropy(self.model(x).flatten(0, 1), y.flatten())

    def rate(self, step: int) -> float:
        """Return the learning rate of an update, counted from 0: linear warm-up, then cosine decay."""
        recipe = self.recipe
        if step < recipe.warmup_steps:
            return recipe.learning_rate * (step + 1) / (recipe.warmup_steps + 1)
        done = (step - recipe.warmup_steps) / (recipe.n_steps - recipe.warmup_steps)
        span = recipe.learning_rate - recipe.min_learning_rate
        return recipe.min_learning_rate + 0.5 * (1 + math.cos(math.pi * done)) * span

    def update(self, step: int) -> float:
        """Run one optimizer update and return its loss in nats per character."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate(step)
        loss = self.loss("train")
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.grad_clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()

    @torch.no_grad()
    def estimate(self) -> dict[str, float]:
        """Return the mean loss of a few batches of each split, as nanoGPT reports its progress."""
        self.model.eval()
        n = self.recipe.eval_batches
        means = {split: sum(self.loss(split).item() for _ in range(n)) / n for split in self.splits}
        self.model.train()
        return means


@torch.no_grad()
def generate(model: PlainGPT, ids: Tensor, n_chars: int) -> Tensor:
    """Continue (B, T) ids by (B, n_chars) sampled ids.

    Each new character recomputes the whole window, as in the lecture notes.
    """
    model.eval()
    prompt = ids.shape[1]
    for _ in range(n_chars):
        logits = model(ids[:, -model.block_size :])[:, -1]
        ids = torch.cat([ids, torch.multinomial(logits.softmax(dim=-1), 1)], dim=1)
    return ids[:, prompt:]
