from __future__ import annotations

import re
from pathlib import Path

import tools_search_ranking


def test_the_example_of_the_readme_holds():
    readme = Path(tools_search_ranking.__file__).with_name("README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    exec(compile(example, "README.md", "exec"), {})  # noqa: S102  # the example is the thing under test
