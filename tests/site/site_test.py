"""The site of the documentation: every link of it resolves, no host is asked, and what is broken is named.

site_test.py REPOSITORY; 77 where cmark-gfm is missing. Links are looked for a second time here, in the files as written.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "tests" / "browser"))
import chromium  # noqa: E402  (beside the tests of pages)

PROGRAM = ROOT / "tools" / "site" / "build"


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.links, self.resources, self.anchors = [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if attrs.get("id"):
            assert attrs["id"] not in self.anchors, f"{attrs['id']} twice"
            self.anchors.add(attrs["id"])
        if tag == "a":
            self.links.append(attrs.get("href", ""))
        elif attrs.get("src") or attrs.get("href"):
            self.resources.append(attrs.get("src") or attrs.get("href"))


class Built(unittest.TestCase):
    """The site of this repository."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.site = Path(cls.folder.name) / "site"
        subprocess.run([sys.executable, PROGRAM, cls.site], check=True, stdout=subprocess.DEVNULL)
        cls.pages = {path: Page(path) for path in sorted(cls.site.rglob("*.html"))}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()


class WholeSite(Built):
    def test_every_page_is_there(self):
        for source in [*ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"]:
            path = source.relative_to(ROOT)
            made = path.with_name("index.html") if path.name == "README.md" else path.with_suffix(".html")
            self.assertIn(self.site / made, self.pages)

    def test_every_link_and_anchor_resolves(self):
        checked = 0
        for path, page in self.pages.items():
            for link in page.links + page.resources:
                parts = urlsplit(link)
                if parts.scheme in ("http", "https", "mailto", "data"):
                    continue
                target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
                self.assertTrue(target.is_file(), f"{path}: {link}")
                self.assertTrue(target.is_relative_to(self.site.resolve()), f"{path}: {link} leaves the site")
                if parts.fragment and target in self.pages:
                    self.assertIn(unquote(parts.fragment), self.pages[target].anchors, f"{path}: {link}")
                checked += 1
        self.assertGreater(checked, 1000)

    def test_no_host_is_asked(self):
        for path, page in self.pages.items():
            for resource in page.resources:
                self.assertNotIn(urlsplit(resource).scheme, ("http", "https"), f"{path}: {resource}")
        for name in ("site.css", "site.js"):
            text = (self.site / name).read_text(encoding="utf-8")
            self.assertIsNone(re.search(r"https?://|@import|fetch\(|XMLHttpRequest|url\(", text), name)

    def test_every_page_is_in_the_navigation(self):
        reached = {(path.parent / urlsplit(link).path).resolve() for path, page in self.pages.items() for link in page.links}
        for path in self.pages:
            self.assertIn(path.resolve(), reached, "no page leads there")


@unittest.skipIf(chromium.find() is None, "no Chromium")
class InABrowser(Built):
    def test_pages_fit_a_phone_and_a_screen(self):
        with chromium.Browser() as browser:
            for width, scheme in ((390, "light"), (1400, "dark")):
                browser.screen(width, 844, scheme, mobile=width < 800)
                for path in self.pages:
                    complaints = [c for c in browser.open(path) if not c.startswith(f"it loads file://{self.site}")]
                    self.assertEqual(complaints, [], path)
                    self.assertLessEqual(browser.evaluate("document.documentElement.scrollWidth"), width, path)

    def test_search_and_menu(self):
        with chromium.Browser() as browser:
            browser.screen(390, 844, mobile=True)
            browser.open(self.site / "docs" / "formats.html")
            shown = 'getComputedStyle(document.getElementById("pages")).display'
            self.assertEqual(browser.evaluate(shown), "none")
            browser.evaluate('document.getElementById("menu").click()')
            self.assertEqual(browser.evaluate(shown), "block")
            browser.evaluate('const box = document.getElementById("search"); box.value = "oversubscription"; box.dispatchEvent(new Event("input"))')
            hrefs = browser.evaluate('[...document.querySelectorAll("#found a")].map((a) => a.getAttribute("href"))')
            self.assertGreater(len(hrefs), 2)
            for href in hrefs:
                self.assertTrue((self.site / "docs" / urlsplit(href).path).resolve().is_file(), href)
            browser.evaluate('box.value = "xyzzy"; box.dispatchEvent(new Event("input"))')
            self.assertEqual(browser.evaluate('document.getElementById("found").textContent'), "nothing found")


class BrokenSites(unittest.TestCase):
    def build(self, **texts):
        """What is said of a small repository with these pages."""
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "repository"
            for name, text in {"README": "# Small\n", "LICENSE": "", **texts}.items():
                path = root / (name if name == "LICENSE" else name.replace("__", "/") + ".md")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            done = subprocess.run([sys.executable, PROGRAM, Path(folder) / "site", "--root", root], capture_output=True, text=True, check=False)
            return done.returncode, done.stderr.strip()

    def test_sound(self):
        self.assertEqual(self.build(docs__start="# A b: `c`\n\n[there](#a-b-c), [up](../README.md#small)\n"), (0, ""))

    def test_named(self):
        for text, said in [("[x](nothing.md)", "docs/start.md: nothing.md: there is no docs/nothing.md"),
                           ("[x](../README.md#large)", "docs/start.md: ../README.md#large: there is no heading of that name in index.html"),
                           ("[x](#here)", "docs/start.md: #here: there is no heading of that name in docs/start.html"),
                           ("[x](../../secret)", "docs/start.md: ../../secret: there is no ../secret"),
                           ("![x](https://example.org/x.png)", "docs/start.md: https://example.org/x.png: a page of the site asks no other")]:
            code, error = self.build(docs__start=f"# Start\n\n{text}\n")
            self.assertEqual(code, 1, text)
            self.assertTrue(error.startswith(said), error)
        code, error = self.build(docs__lost="# Lost\n")
        self.assertEqual((code, error), (1, "docs/lost.md: stands in no section of the navigation; name it in tools/site/build"))


if shutil.which("cmark-gfm") is None:
    print("skipped: cmark-gfm is not installed")
    sys.exit(77)
unittest.main()
