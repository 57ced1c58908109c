"""The site: `python3 tasks.py docs` builds it, offline and with warnings as errors."""

import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "_ext")]

import toppush  # noqa: E402
from toppush.metrics import METRICS  # noqa: E402

sys.modules |= {f"toppush.{name}": getattr(toppush, name) for name in ("cluster", "on_disk")}

project, author = "toppush", "the toppush developers"
copyright = author
version = release = toppush.__version__
language = "en"

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "command_pages",
    "contents",
    "our_members",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "gallery/*.ipynb", "gallery/*.py"]
templates_path = ["_templates"]
default_role = "py:obj"
smartquotes = False  # it would make a dash of the two in --model
highlight_language = "none"

# Markdown
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

# Reference
autosummary_context = {"metrics": [f"toppush.metrics.{name}" for name in METRICS]}
autodoc_typehints = "none"
autodoc_mock_imports = [] if find_spec("torch") else ["torch"]
numpydoc_show_class_members = False

# Gallery
needs_torch = "" if find_spec("torch") else "(?!torch_)"
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": rf"/{needs_torch}\w+\.py$",
    "within_subsection_order": "gallery_order.by_story",
    "abort_on_example_error": True,
    "capture_repr": ("_repr_html_",),
    "download_all_examples": False,
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
    "min_reported_time": 0,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "reference_url": {},
}
warnings.filterwarnings("ignore", message=".*is non-interactive.*")

# Look
html_theme = "pydata_sphinx_theme"
html_title = "toppush"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = False  # it would be fetched, which browsers forbid for files
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": []}
