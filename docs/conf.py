"""The site: `make docs` builds it into docs/build, offline; a warning or an example that fails stops the build."""

import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for docs.*: gallery, reference

from docs.gallery import page
from docs.reference import commands, complete, members

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
exclude_patterns = ["build", "jupyter_execute", "**/README.md", "**/.ipynb_checkpoints"]

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

# -- reference: one page a name, made from its docstring --
templates_path = ["_templates"]
autosummary_generate = True
autosummary_context = {"shown": members.tables()}
autodoc_typehints = "none"  # signatures name the parameters, the text below says what they take
autodoc_class_signature = "mixed"
default_role = "py:obj"  # names in docstrings are links where there is a page
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
add_module_names = False
toc_object_entries_show_parents = "hide"

# -- looks: everything is in the folder, nothing is fetched --
html_theme = "pydata_sphinx_theme"
html_title = "losslens"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/logo.svg"
html_sidebars = {"index": []}
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"image_light": "_static/logo.svg", "image_dark": "_static/logo.svg", "text": "losslens"},
    "show_toc_level": 2,
    "navbar_align": "left",
    "show_prev_next": False,
    "header_links_before_dropdown": 7,
    "footer_start": ["copyright"],
    "footer_end": [],
    "navigation_with_keys": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def without_signature(app, what, name, obj, options, signature, returned):
    """Results are made by verbs: how they are constructed is nobody's business."""
    return ("", None) if what == "class" and name in members.tables() else None


def setup(app):
    """Write the pages that are made: of the commands, and of the paper where `make gallery` has not."""
    if not all((page.BUILD / f"{name}.md").exists() for name in page.ORDER):
        page.main([])
    app.connect("builder-inited", lambda app: commands.write(Path(app.srcdir) / "reference" / "generated"))
    app.connect("autodoc-process-signature", without_signature)
    app.connect("autodoc-process-docstring", complete.of_autodoc, priority=400)  # before numpydoc
