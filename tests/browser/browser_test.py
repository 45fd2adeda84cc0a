"""What only a browser can tell about the pages: that it does not complain, loads nothing, and that nothing reaches
beyond the edge of a phone. usage: browser_test.py NEST [FOLDER FOR SCREENSHOTS]"""

import os
import subprocess
import sys
import tempfile

import chromium

HOSTILE = "<script>document.title='hacked'</script><img src=x onerror=\"document.title='hacked'\">"

CLUSTER = f"""
name: "{HOSTILE.replace(chr(34), chr(39))}"
device: h100
levels:
  - {{name: "n<b>", group: 8, bandwidth: 450GB/s, latency: 3us}}
  - {{name: rack, counts: [4, 4, 3, 2], bandwidth: 50GB/s, latency: 8us, rails: true}}
  - {{name: hall, group: 4, bandwidth: 400GB/s, latency: 10us}}
"""

STUDY = f"""
study: rent
description: "{HOSTILE.replace(chr(34), chr(39))}"
model: llama3.2-1b
axes:
  cluster: [dgx-h100, dgx-a100]
  price: [2.5, 1.2]
  devices: [8, 12, 16, 32]
  batch: [32, 64, 128]
  cluster.1.latency: [2us, 3us]
zip: [[cluster, price]]
"""

PAGES = {
    "small": ["plan", "--model", "llama3-8b", "--devices", "8", "--no-why"],
    "large": ["plan", "--model", "llama3-405b", "--devices", "16384", "--global-batch", "2048", "--no-why"],
    "experts": ["plan", "--model", "mixtral-8x7b", "--devices", "64", "--top", "3"],
    "deep": ["eval", "--model", "llama3-405b", "--cluster", "h100-spine-leaf", "--devices", "1024", "--global-batch",
             "1024", "--strategy", "tp=8,sp=1,pp=32,mbs=1,recompute=full"],
    "no-fit": ["eval", "--model", "gpt3-175b", "--cluster", "dgx-a100", "--devices", "16", "--global-batch", "64",
               "--strategy", "tp=8,pp=2,mbs=1"],
    "sweep": ["sweep", "STUDY", "--db", "DATABASE"],
    "uneven": ["eval", "--model", "llama3-70b", "--cluster", "CLUSTER", "--global-batch", "96", "--seq", "4096",
               "--strategy", "tp=4,sp=1,pp=4,dp=6,mbs=1"],
}

# Elements that stick out to the right, unless they are inside something that scrolls or cuts them off.
STICKING_OUT = """(() => {
  const wide = [];
  for (const element of document.querySelectorAll('body *')) {
    if (element.closest('.scroll, pre, svg, .skip, .track')) continue;
    if (element.getBoundingClientRect().right > innerWidth + 0.5) wide.push(element.outerHTML.slice(0, 80));
  }
  return wide.slice(0, 3);
})()"""

# Contrast of every text with the background of the page: 4.5, or 3 where letters are large.
LOW_CONTRAST = """(() => {
  const rgb = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const bad = new Set();
  for (const element of document.querySelectorAll('body *:not(svg *)')) {
    if (![...element.childNodes].some(node => node.nodeType === 3 && node.data.trim())) continue;
    let under = element;
    while (under && rgb(getComputedStyle(under).backgroundColor)[3] === 0) under = under.parentElement;
    const style = getComputedStyle(element);
    const a = light(rgb(style.color)), b = light(rgb(getComputedStyle(under || document.body).backgroundColor));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5)) bad.add(element.className + ' ' + ratio.toFixed(2));
  }
  return [...bad].slice(0, 5);
})()"""


def make_pages(nest, folder):
    cluster = os.path.join(folder, "cluster.yaml")
    with open(cluster, "w", encoding="utf-8") as file:
        file.write(CLUSTER)
    study = os.path.join(folder, "study.yaml")
    with open(study, "w", encoding="utf-8") as file:
        file.write(STUDY)
    for name, words in PAGES.items():
        page = os.path.join(folder, name + ".html")
        places = {"CLUSTER": cluster, "STUDY": study, "DATABASE": os.path.join(folder, "study.sqlite")}
        words = [places.get(word, word) for word in words]
        done = subprocess.run([nest, *words, "--html", page], capture_output=True, text=True, check=False)
        if name == "sweep" and "without SQLite" in done.stderr:
            continue
        if done.returncode not in (0, 3) or not os.path.exists(page):
            sys.exit(f"{name}: nest ended with {done.returncode}: {done.stderr}")
    plan = os.path.join(folder, "plan.json")
    for words in (PAGES["deep"] + ["--json"], ["simulate", plan, "--html", os.path.join(folder, "simulated.html")]):
        done = subprocess.run([nest, *words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"simulated: nest ended with {done.returncode}: {done.stderr}")
        if "--json" in words:
            with open(plan, "w", encoding="utf-8") as file:
                file.write(done.stdout)


def check_panels(browser, page, failures, shots):
    """Every mark opens the panel of its point, which shows and closes without a script."""
    for width in (1200, 360):
        browser.screen(width, 800, "light", mobile=width < 500)
        failures += [f"sweep: {text}" for text in browser.open(page)]
        lost = browser.evaluate("""[...document.querySelectorAll('a[href^="#p"]')].map(a => a.getAttribute('href'))
            .filter(h => /^#p\\d+$/.test(h) && !document.querySelector(h)).length""")
        if lost:
            failures.append(f"sweep: {lost} marks open nothing")
        shown = browser.evaluate("""(() => { location.hash = document.querySelector('.chart a').getAttribute('href');
            const box = document.querySelector('.point:target').getBoundingClientRect();
            return box.width > 300 && box.right <= innerWidth + 0.5; })()""")
        if not shown:
            failures.append(f"sweep, {width} px: a point does not open")
        failures += [f"sweep, {width} px, opened: reaches beyond the edge: {text}" for text in browser.evaluate(STICKING_OUT)]
        if shots:
            browser.screenshot(os.path.join(shots, f"sweep-open-{width}.png"))
        browser.evaluate("location.hash = document.querySelector('.point:target .close').getAttribute('href')")
        if browser.evaluate("document.querySelectorAll('.point:target').length"):
            failures.append(f"sweep, {width} px: a point does not close")


def check_page(browser, folder, name, failures, shots):
    page = os.path.join(folder, name + ".html")
    for width, scheme in ((1200, "light"), (1200, "dark"), (360, "light")):
        browser.screen(width, 800, scheme, mobile=width < 500)
        where = f"{name}, {width} px, {scheme}"
        failures += [f"{where}: {text}" for text in browser.open(page)]
        scroll = browser.evaluate("document.documentElement.scrollWidth")
        if scroll > width:
            failures.append(f"{where}: scrolls sideways, {scroll} px")
        failures += [f"{where}: reaches beyond the edge: {text}" for text in browser.evaluate(STICKING_OUT)]
        failures += [f"{where}: little contrast: {text}" for text in browser.evaluate(LOW_CONTRAST)]
        if "hacked" in browser.evaluate("document.title"):
            failures.append(f"{where}: a name was run as a script")
        if browser.evaluate("document.compatMode") != "CSS1Compat":
            failures.append(f"{where}: quirks mode")
        if shots:
            browser.screenshot(os.path.join(shots, f"{name}-{width}-{scheme}.png"))
    if name == "sweep":
        check_panels(browser, page, failures, shots)
    pages = os.path.join(shots or folder, name + ".pdf")
    browser.pdf(pages)
    if os.path.getsize(pages) < 10_000:
        failures.append(f"{name}: prints as nothing")


def main():
    if not chromium.find():
        print("skipped: no chromium here; `apt-get install chromium` gives one")
        return 77
    failures = []
    with tempfile.TemporaryDirectory(prefix="nest-html-") as folder, chromium.Browser() as browser:
        make_pages(sys.argv[1], folder)
        shots = sys.argv[2] if len(sys.argv) > 2 else None
        names = sorted(name[:-5] for name in os.listdir(folder) if name.endswith(".html"))
        for name in names:
            check_page(browser, folder, name, failures, shots)
    print("\n".join(failures) or f"{len(names)} pages: ok")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
