"""Every scenario of an answer is told both ways, and must come to the same."""

import pytest

both_modes = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
