"""The site: `make docs` builds it into docs/build, offline; a warning or an example that fails stops the build."""

from importlib.util import find_spec

import losslens

project = "losslens"
author = "the losslens developers"
copyright = "the losslens developers"  # noqa: A001  Sphinx's name
version = release = losslens.__version__

extensions = [
    "myst_nb",  # Markdown, and pages whose code is run when they are built
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["build", "jupyter_execute", "gallery/build", "**/README.md", "**/.ipynb_checkpoints"]

# -- pages --
myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3  # links to headings, as GitHub writes them

# -- code --
# Every page with cells is run anew: what a page shows is what the library of this commit prints.
nb_execution_mode = "force"
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True
# torch takes gigabytes on some systems, and is no part of losslens[docs]: elsewhere its page says that it was not run.
if find_spec("torch"):
    tags.add("torch")  # noqa: F821  a name that Sphinx gives
else:
    nb_execution_excludepatterns = ["tutorials/torch.md"]
copybutton_exclude = ".linenos, .gp, .go"

# -- reference --
autosummary_generate = True
autodoc_typehints = "none"  # signatures name the parameters, the text below says what they take
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
add_module_names = False

# -- looks: everything is in the folder, nothing is fetched --
html_theme = "pydata_sphinx_theme"
html_title = "losslens"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "show_prev_next": False,
    "header_links_before_dropdown": 7,
    "footer_start": ["copyright"],
    "footer_end": [],
    "navigation_with_keys": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
