// Numbers as the command line writes them, so that the two can be compared.

const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

export const number = (value, digits = 3) => (known(value) ? value.toFixed(digits) : "–");

export const percent = (share, digits = 1) => (known(share) ? `${(100 * share).toFixed(digits)} %` : "–");

export const signedPercent = (share) => (known(share) ? `${share < 0 ? "−" : "+"}${percent(Math.abs(share))}` : "–");

export const count = (value) => (known(value) ? Math.round(value).toLocaleString("en") : "–");

// A mean with the half-width of its interval; ~± marks one from too short a run.
export function withInterval(run) {
  if (!known(run.mean)) return "–";
  if (!known(run.half_width)) return number(run.mean);
  return `${number(run.mean)} ${run.interval_reliable ? "±" : "~±"} ${number(run.half_width, 2)}`;
}

export function milliseconds(units, unitSeconds) {
  if (!known(units)) return "";
  const value = 1000 * units * unitSeconds;
  return `${value < 10 ? value.toFixed(2) : value.toFixed(1)} ms`;
}

// How far a measured mean is from the theory's, and whether its interval holds that.
export function againstTheory(run) {
  const theory = run.theory?.mean;
  if (!known(theory)) return "no prediction";
  if (!known(run.mean)) return `theory ${number(theory)} (${run.theory.kind})`;
  const inside = known(run.half_width) && Math.abs(run.mean - theory) <= run.half_width;
  return `theory ${number(theory)} (${run.theory.kind}): ${signedPercent(run.mean / theory - 1)}${inside ? ", within ±" : ""}`;
}

export const verdict = (run) => `${run.valid ? "✔ valid" : "✘ suspect"}${run.so_far ? " so far" : ""}`;

// How many servers hold how many tasks, in words.
export function occupation(run, queues) {
  if (!queues?.length) return "no queue lengths are known";
  const most = Math.max(...queues);
  if (run.servers_per_row > 1) {
    return `each row is the mean of ${run.servers_per_row} servers; the longest mean is ${number(most, 1)}`;
  }
  const holding = (low, high) => queues.filter((length) => length >= low && length <= high).length;
  return `${holding(0, 0)} idle, ${holding(1, 1)} with one task, ${holding(2, 2)} with two, `
    + `${holding(3, Infinity)} with more; the longest queue is ${most}`;
}
