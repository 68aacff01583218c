"""Personal login links: the token becomes a cookie, but replaces that of another person only after a question.

Whoever has a link could make another's browser open it, and that one would then label in the wrong name. The cookie is
not sent when another site leads here, so the first answer may not know that there is one: it is a page that leads on
to the same link by itself. That second call is ours, and it brings the cookie if there is one.
"""

from html import escape
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from understudy.web.access import Access
from understudy.web.guard import OWN_SITES

LOGIN_SECONDS: Final = 365 * 86_400
ENTRY_SECONDS: Final = 300  # seconds
PAGE: Final = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Understudy</title>{refresh}</head>
<body><p>{text}</p><p><a href="{address}">Go on as {owner}</a></p></body></html>
"""


def enter_by_link(request: Request, access: Access, token: str) -> Response:
    """Turn the token of a personal link into a cookie, and take it out of the address bar."""
    tokens, here = access.tokens, f"{request.scope.get('root_path', '')}/"
    if tokens is None:
        return RedirectResponse(here, 303)
    owner = access.owner_of_link(token)  # a login's cookie is not a link
    if owner is None:
        return PlainTextResponse("This link is not valid here. Ask for a new one.\n", 401)
    known = access.visitor(request.headers)
    name = None if known is None else known.name
    coming = f"{tokens.cookie}_coming"
    if not _is_ours(request, known is not None or coming in request.cookies):
        page = _page_to_same_link(here, token, access.people.name_of(owner), again="again" in request.query_params)
        _set_cookie(page, request, coming, "1", ENTRY_SECONDS, access.home)
        return page
    if name not in (None, owner) and request.query_params.get("instead") != name:
        now = escape(access.people.name_of(str(name)))
        text = f'This browser labels as {now}. <a href="{here}">Stay {now}</a>, or:'
        address = f"{here}?token={quote(token)}&amp;instead={quote(str(name), safe='')}"
        return HTMLResponse(
            PAGE.format(refresh="", text=text, address=address, owner=escape(access.people.name_of(owner)))
        )
    answer = RedirectResponse(here, 303)
    give_cookie(answer, request, access, token)
    answer.delete_cookie(coming, path=access.home, httponly=True, samesite="strict")
    return answer


def _is_ours(request: Request, has_cookie: bool) -> bool:
    """Whether no other site led here. Without HTTPS browsers do not say; then only a strict cookie tells."""
    site = request.headers.get("sec-fetch-site")
    return has_cookie if site is None else site in OWN_SITES


def _page_to_same_link(here: str, token: str, owner: str, *, again: bool) -> HTMLResponse:
    """A page that opens the link from here. By itself only once: a browser without cookies would never get on."""
    address = f"{here}?token={quote(token)}&amp;again"
    refresh = "" if again else f'<meta http-equiv="refresh" content="0; url={address}">'
    text = "This page needs cookies, to know who you are." if again else "One moment."
    return HTMLResponse(PAGE.format(refresh=refresh, text=text, address=address, owner=escape(owner)))


def give_cookie(answer: Response, request: Request, access: Access, token: str) -> None:
    """Set the cookie that identifies this browser from now on, in a project that has tokens."""
    if access.tokens is not None:
        _set_cookie(answer, request, access.tokens.cookie, token, LOGIN_SECONDS, access.home)


def _set_cookie(answer: Response, request: Request, name: str, value: str, seconds: int, path: str) -> None:
    """A cookie that no script reads and no other site sends."""
    answer.set_cookie(
        name,
        value,
        max_age=seconds,
        path=path,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
