"""Pages as the router shows them, and what tests read from them."""

from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Button


def open_page(name: str, **query: str) -> AppTest:
    """A page as the router shows it to somebody who has not signed in."""
    app = AppTest.from_file("../app.py", default_timeout=30)
    app.user = {}
    for key, value in query.items():
        app.query_params[key] = value
    if name != "start":
        app.switch_page(f"pages/{name}.py")
    return ok(app.run())


def ok(app: AppTest) -> AppTest:
    assert not app.exception, app.exception
    return app


def texts(app: AppTest) -> str:
    return "\n".join(str(element.value) for element in [*app.title, *app.header, *app.markdown, *app.error, *app.warning])


def metric(app: AppTest, label: str) -> str:
    return next(str(shown.value) for shown in app.metric if shown.label == label)


def button(app: AppTest, label: str) -> Button:
    return next(shown for shown in app.button if shown.label == label)
