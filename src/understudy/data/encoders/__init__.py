"""From an item to a row of features: networks by name, files of weights, and your own code, with one syntax.

`make_encoder("KIND[:MODEL][?OPTIONS][@WEIGHTS]")` gives an `Encoder`. Preprocessing belongs to it.
"""

from understudy.data.encoders.modules import ImageEncoder
from understudy.data.encoders.preprocessing import Preprocessing
from understudy.data.encoders.protocol import Encoder
from understudy.data.encoders.registry import make_encoder
from understudy.data.encoders.weights import load_weights

__all__ = ["Encoder", "ImageEncoder", "Preprocessing", "load_weights", "make_encoder"]
