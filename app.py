"""The Gradio demo and a Space's entry point.

python app.py --model outputs/quickstart
"""

import sys

from wenzhen.demo.main import main
from wenzhen.errors import run

if __name__ == "__main__":
    sys.exit(run(main))
