// Numbers in the format of the command line, so that users can compare the two.

const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

export const number = (value, digits = 3) => (known(value) ? value.toFixed(digits) : "–");

export const percent = (fraction, digits = 1) => (known(fraction) ? `${(100 * fraction).toFixed(digits)} %` : "–");

export const signedPercent = (fraction) => (known(fraction) ? `${fraction < 0 ? "−" : "+"}${percent(Math.abs(fraction))}` : "–");

export const count = (value) => (known(value) ? Math.round(value).toLocaleString("en") : "–");

// A mean with the half-width of its interval; ~± marks an unreliable one, from a run that is too short.
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

// The difference of a measured mean from the theory's, and whether its interval contains the theory's mean.
export function againstTheory(run) {
  const theory = run.theory?.mean;
  if (!known(theory)) return "no prediction";
  if (!known(run.mean)) return `theory ${number(theory)} (${run.theory.kind})`;
  const inside = known(run.half_width) && Math.abs(run.mean - theory) <= run.half_width;
  return `theory ${number(theory)} (${run.theory.kind}): ${signedPercent(run.mean / theory - 1)}${inside ? ", within ±" : ""}`;
}

export const verdict = (run) => `${run.valid ? "✔ valid" : "✘ suspect"}${run.so_far ? " so far" : ""}`;

// The numbers of servers with no task, one, two and more, as a sentence.
export function occupation(run, queues) {
  if (!queues?.length) return "no queue lengths are known";
  const most = Math.max(...queues);
  if (run.servers_per_row > 1) {
    return `each row is the mean of ${run.servers_per_row} servers; the longest mean is ${number(most, 1)}`;
  }
  const between = (low, high) => queues.filter((length) => length >= low && length <= high).length;
  return `${between(0, 0)} idle, ${between(1, 1)} with one task, ${between(2, 2)} with two, `
    + `${between(3, Infinity)} with more; the longest queue is ${most}`;
}
