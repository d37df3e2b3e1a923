"""Every bound of turnlog, each with its reason. Units come last in a name."""

from turnlog.limits.agents import *  # noqa: F403
from turnlog.limits.care import *  # noqa: F403
from turnlog.limits.core import *  # noqa: F403
from turnlog.limits.threads import *  # noqa: F403
from turnlog.limits.web import *  # noqa: F403
