// Numbers as people read them, with units; three significant digits as the reports have.

const kMissing = "–";

export function three(value: number): string {
  if (!Number.isFinite(value)) return kMissing;
  if (value === 0) return "0";
  if (Math.abs(value) >= 1000) return integer(value);
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return value.toFixed(Math.min(digits, 6));
}

export function integer(value: number): string {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

export function seconds(value: number): string {
  if (!Number.isFinite(value)) return kMissing;
  const size = Math.abs(value);
  if (size === 0) return "0 s";
  if (size < 0.9995e-3) return `${three(value * 1e6)} µs`;
  if (size < 0.9995) return `${three(value * 1e3)} ms`;
  if (size < 120) return `${three(value)} s`;
  if (size < 7200) return `${three(value / 60)} min`;
  if (size < 48 * 3600) return `${three(value / 3600)} h`;
  return `${three(value / 86400)} days`;
}

export function gibibytes(bytes: number): string {
  const value = bytes / 2 ** 30;
  return value < 1000 ? value.toFixed(1) : integer(value);
}

const kCounts: [number, string][] = [[1e15, "P"], [1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "K"]];
export function count(value: number): string {
  for (const [size, letter] of kCounts) {
    if (value >= size * 0.9995) return `${three(value / size)} ${letter}`;
  }
  return three(value);
}

const kRates: [number, string][] = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
export function rate(value: number, unit = "B/s"): string {
  for (const [size, letter] of kRates) {
    if (value >= size * 0.9995) return `${three(value / size)} ${letter}${unit}`;
  }
  return `${three(value)} ${unit}`;
}

export function percent(share: number, digits = 1): string {
  return `${(share * 100).toFixed(digits)} %`;
}

export function signedPercent(share: number): string {
  return `${share >= 0 ? "+" : "−"}${percent(Math.abs(share))}`;
}

export function clip(text: string, most = 60): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

export function manyOf(word: string): string {
  return /(ch|sh|s|x)$/.test(word) ? `${word}es` : `${word}s`;
}

export function plural(number: number, word: string): string {
  return `${integer(number)} ${number === 1 ? word : manyOf(word)}`;
}

export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
