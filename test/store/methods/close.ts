import { expect } from 'vitest';

/** Holds two results to be equal, numbers within the tolerance and everything else exactly. */
export function expectClose(actual: unknown, expected: unknown, tolerance = 1e-6, at = 'output'): void {
  if (typeof expected === 'number' && typeof actual === 'number') {
    expect(Math.abs(actual - expected), `${at}: ${actual} is not ${expected}`).toBeLessThanOrEqual(tolerance);
  } else if (Array.isArray(expected) && Array.isArray(actual)) {
    expect(actual.length, `${at} has ${actual.length} entries`).toBe(expected.length);
    for (const [i, item] of expected.entries()) expectClose(actual[i], item, tolerance, `${at}[${i}]`);
  } else if (isRecord(expected) && isRecord(actual)) {
    expect(Object.keys(actual).sort(), at).toEqual(Object.keys(expected).sort());
    for (const [name, item] of Object.entries(expected)) expectClose(actual[name], item, tolerance, `${at}.${name}`);
  } else {
    expect(actual, at).toEqual(expected);
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
