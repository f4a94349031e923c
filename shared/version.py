"""The product's version. A test holds it equal to the package's, whose metadata is slow to read."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
