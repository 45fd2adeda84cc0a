#include "html/style.h"

#include <string_view>

namespace nest::html {
namespace {

// No "<", "&" or closing style tag: the text goes into the page as it is. Text and its background differ by a contrast
// of 4.5 or more in both schemes; neighbouring parts of a bar differ in lightness and are separated by a line.
constexpr std::string_view kBase = R"css(
:root{color-scheme:light dark;--back:#fdfdfc;--ink:#1b1f24;--muted:#59626d;--line:#d8dce0;--panel:#f3f4f4;--accent:#1f5f8b;--over:#a8321f;
--compute:#24557f;--recompute:#8dbcdc;--bubble:#d5d9de;--tp:#d0702a;--cp:#f3c08f;--ep:#7d3f63;--p2p:#d9a9c6;--zero:#1c7566;--grad_sync:#8ccfc0;--optimizer:#a3882f;--other:#8b929b;--gap:#fdfdfc;--on-bwd:#fff}
@media screen and (prefers-color-scheme:dark){:root{--back:#14171a;--ink:#e7e9eb;--muted:#a4adb7;--line:#3a4149;--panel:#1d2126;--accent:#86bde3;--over:#f0907d;
--compute:#4f8fc4;--recompute:#b7d6ec;--bubble:#363d45;--tp:#e08a47;--cp:#f7d3ae;--ep:#a8648d;--p2p:#e3bfd4;--zero:#2f9c89;--grad_sync:#a6ddd0;--optimizer:#c3a748;--other:#78808a;--gap:#14171a;--on-bwd:#000}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;scroll-behavior:auto}
body{margin:0 auto;padding:1.5rem 1.25rem 4rem;max-width:62rem;background:var(--back);color:var(--ink);font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Liberation Sans",sans-serif;overflow-wrap:break-word}
h1{font-size:1.9rem;line-height:1.2;margin:0 0 .3rem;font-weight:650;letter-spacing:-.01em}
h2{font-size:1.3rem;line-height:1.25;margin:0 0 .4rem;font-weight:650}
h3{font-size:1rem;margin:1.4rem 0 .4rem;font-weight:650}
p{margin:.4rem 0}
section{margin-top:2.6rem;padding-top:1.3rem;border-top:1px solid var(--line)}
a{color:var(--accent)}
.skip{position:absolute;left:-99rem}
.skip:focus{left:1rem;top:.5rem;background:var(--back);padding:.3rem .6rem}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
.kicker{font-size:.8rem;letter-spacing:.08em;text-transform:uppercase;color:var(--muted);margin:0 0 .2rem}
.muted,figcaption{color:var(--muted);font-size:.875rem}
.lead{max-width:46rem;font-size:1.05rem;margin-bottom:1rem}
.over{color:var(--over);font-weight:650}
nav ul{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;list-style:none;margin:1.6rem 0 0;padding:.6rem 0 0;border-top:1px solid var(--line);font-size:.9rem}
nav a{text-decoration:none}
nav a:hover{text-decoration:underline}
code,pre{font-family:ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.85rem}
.strategy{background:var(--panel);padding:.25rem .5rem;border-radius:4px;user-select:all}
pre{background:var(--panel);padding:.7rem .9rem;border-radius:4px;overflow:auto;max-height:26rem;white-space:pre-wrap;overflow-wrap:anywhere}
details{margin:.8rem 0}
summary{cursor:pointer;color:var(--accent);font-size:.95rem}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:1rem 1.4rem;margin:1.3rem 0}
.figures div{display:flex;flex-direction:column-reverse;justify-content:flex-end}
.figures dt{font-size:.85rem;color:var(--muted);line-height:1.3}
.figures dd{margin:0;font-size:1.55rem;font-weight:650;line-height:1.25;font-variant-numeric:tabular-nums;white-space:nowrap}
)css";

constexpr std::string_view kParts = R"css(
.scroll{overflow-x:auto;margin:.6rem 0;background:linear-gradient(90deg,var(--back) 40%,transparent) 0 0/2.4rem 100% no-repeat local,linear-gradient(270deg,var(--back) 40%,transparent) 100% 0/2.4rem 100% no-repeat local,linear-gradient(90deg,#7776,transparent) 0 0/.6rem 100% no-repeat,linear-gradient(270deg,#7776,transparent) 100% 0/.6rem 100% no-repeat}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums;min-width:20rem}
th,td{padding:.3rem .9rem .3rem 0;border-bottom:1px solid var(--line);vertical-align:baseline;font-weight:400;text-align:left}
thead th{color:var(--muted);font-size:.8rem;vertical-align:bottom;line-height:1.25}
tbody tr:last-child th,tbody tr:last-child td{border-bottom:0}
.n{text-align:right;white-space:nowrap}
.w{white-space:nowrap}
.n+.w{padding-left:.6rem}
.more{display:block;font-size:.88em;color:var(--muted);white-space:normal;line-height:1.3}
.more code{font-size:.95em}
figure{margin:1rem 0}
figcaption{margin-top:.6rem;max-width:46rem}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;font-size:.85rem;margin:0 0 .6rem}
.key{white-space:nowrap}
.swatch{width:.8rem;height:.8rem;margin-right:.4rem;vertical-align:-.05rem;display:inline-block}
.bar{display:block;width:100%;min-width:7rem;height:.85rem;overflow:visible}
td .bar{width:min(16rem,40vw)}
.tall{margin:.4rem 0 1rem}
.tall .bar{height:1.6rem}
.gap{stroke:var(--gap);stroke-width:1}
.limit{stroke:var(--ink);stroke-width:2}
.lane{display:flex;align-items:center;gap:.6rem;font-size:.85rem;font-variant-numeric:tabular-nums}
.who{flex:0 0 2.6rem;text-align:right;color:var(--muted)}
.busy{flex:0 0 3.6rem;text-align:right}
.grow{flex:1 1 auto;min-width:0}
.under,.over-bar{display:block;font-size:.78rem;color:var(--muted);line-height:1.35;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.over-bar{color:var(--ink);font-size:.85rem;white-space:normal;margin-bottom:.15rem}
.memory .lane{margin:.3rem 0;align-items:flex-start}
.memory .who{flex-basis:2.8rem;white-space:nowrap}
.memory .bar{height:1.15rem}
.memory .track{margin:0;height:1.1rem}
.network .bar{background:var(--panel)}
.network .lane{margin:.7rem 0;align-items:flex-end}
.network .bar{height:1.15rem}
.head{font-size:.78rem;color:var(--muted)}
.timeline .lane{margin:2px 0}
.strip{flex:1 1 auto;min-width:0;height:22px;display:block;overflow:hidden;box-shadow:0 1px 0 var(--line)}
.track{position:relative;height:1.3rem;margin-left:3.2rem;margin-right:4.2rem;font-size:.78rem;color:var(--muted);line-height:1.3rem}
.track span{position:absolute;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
.phases span{border-left:1px solid var(--muted);padding-left:.25rem}
.track .mid{transform:translateX(-50%)}
.track .last{transform:translateX(-100%)}
.cut{fill:var(--back)}
.strip text{font-size:10px}
.strip .c{fill:var(--muted)}
.strip .on-fwd{fill:#000}
.strip .on-bwd{fill:var(--on-bwd)}
.fwd{fill:var(--recompute)}.bwd{fill:var(--compute)}.once{fill:var(--optimizer)}
.compute{fill:var(--compute)}.recompute{fill:var(--recompute)}.bubble{fill:var(--bubble)}.tp{fill:var(--tp)}.cp{fill:var(--cp)}.ep{fill:var(--ep)}.p2p{fill:var(--p2p)}.zero{fill:var(--zero)}.grad_sync{fill:var(--grad_sync)}.optimizer{fill:var(--optimizer)}.other{fill:var(--other)}.excess{fill:var(--tp)}
.m-weights{fill:var(--compute)}.m-gradients{fill:var(--recompute)}.m-optimizer{fill:var(--zero)}.m-activations{fill:var(--cp)}.m-working{fill:var(--tp)}.m-buffers{fill:var(--other)}.m-margin{fill:var(--bubble)}
.map{margin:.4rem 0}
.tiles,.boxes{display:flex;flex-wrap:wrap;gap:.55rem}
.box{border:1px solid var(--line);border-radius:5px;padding:.35rem .45rem .45rem}
.box .tiles{gap:.4rem}
.many{gap:.2rem}
.tile{display:flex;flex-direction:column;align-items:flex-start}
.tile svg{display:block;max-width:100%}
.cap{font-size:.72rem;color:var(--muted);line-height:1.3;font-variant-numeric:tabular-nums;display:block}
.box .cap{margin-bottom:.2rem}
.tile .cap{margin:.1rem 0 0}
.c{text-anchor:middle;font-size:10px;font-variant-numeric:tabular-nums}
.strong{font-size:12px;font-weight:600}
.grid{fill:none;stroke:var(--back);stroke-opacity:.35;stroke-width:.6}
.frame{fill:none;stroke:var(--line)}
.hatch-back{fill:var(--panel)}.hatch-line{fill:var(--muted)}
.defs{position:absolute;width:0;height:0}
.stages{display:flex;align-items:center;gap:.6rem;margin:.4rem 0 .9rem;font-size:.85rem}
.ramp{flex:1 1 auto;height:18px;display:block;max-width:40rem}
footer{margin-top:2.5rem;border-top:1px solid var(--line);padding-top:.6rem}
@media (max-width:40rem){body{padding:1rem .9rem 3rem}h1{font-size:1.5rem}.figures dd{font-size:1.3rem}.figures{grid-template-columns:repeat(2,1fr)}.drawn,.ticks .first{display:none}tbody th.w{white-space:normal;min-width:7rem}#strategy-table td.w{white-space:normal}th,td{padding-right:.6rem}
.strip .on-fwd,.strip .on-bwd{display:none}.who{flex-basis:1.7rem}.busy{flex-basis:3.1rem}.lane{gap:.4rem}.track{margin-left:2.1rem;margin-right:3.5rem}.ramp text{font-size:8px}}
@media print{:root{--back:#fff;--gap:#fff}body{max-width:none;padding:0;font-size:10pt}nav,.skip{display:none}section{margin-top:1.2rem;padding-top:.7rem}figure,table,tr,.lane,.tile,h2,h3,.lead,.figures{break-inside:avoid}details:not([open]){display:none}h2,h3,.lead{break-after:avoid}
svg,.strip,.box{print-color-adjust:exact;-webkit-print-color-adjust:exact}.scroll{overflow:visible}pre{max-height:none}table{font-size:9pt}a{color:inherit}}
@page{margin:14mm}
)css";

}  // namespace

std::string style_sheet() { return std::string(kBase) + std::string(kParts); }

}  // namespace nest::html
