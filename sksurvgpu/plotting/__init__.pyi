# Figures, for type checkers and for __init__.py, which loads a name on first use.

from .attrition import AttritionDisplay as AttritionDisplay
from .balance import BalanceDisplay as BalanceDisplay
from .bootstrap import BootstrapDisplay as BootstrapDisplay
from .calibration import CalibrationDisplay as CalibrationDisplay
from .coefficients import CoefficientDisplay as CoefficientDisplay
from .cv import CVDisplay as CVDisplay
from .effects import EffectsDisplay as EffectsDisplay
from .empirical_null import EmpiricalNullDisplay as EmpiricalNullDisplay
from .incidence import CumulativeIncidenceDisplay as CumulativeIncidenceDisplay
from .path import PathDisplay as PathDisplay
from .profile import ProfileDisplay as ProfileDisplay
from .propensity import PropensityDisplay as PropensityDisplay
from .schoenfeld import SchoenfeldDisplay as SchoenfeldDisplay
from .stability import StabilityDisplay as StabilityDisplay
from .stacked import StackedIncidenceDisplay as StackedIncidenceDisplay
from .survival import SurvivalDisplay as SurvivalDisplay
from .trace import TraceDisplay as TraceDisplay
