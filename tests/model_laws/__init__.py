"""Laws that hold for every model family of this package, whatever it computes inside.

A family subclasses [`ModelLaws`] as a test class and says what it is; see [`ModelFamily`].
"""

from .computing import ComputingLaws
from .generating import GenerationLaws
from .keeping import KeepingLaws
from .learning import LearningLaws
from .reading import ReadingLaws


class ModelLaws(ReadingLaws, GenerationLaws, LearningLaws, KeepingLaws, ComputingLaws):
    """All laws."""
