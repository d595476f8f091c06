import { describe, expect, test } from 'vitest';
import { findMethod, METHODS } from '../../../store/evaluate/methods/find.ts';
import { methodParams, runMethod } from '../../../store/evaluate/methods/run.ts';
import { expectClose } from './close.ts';
import { EXAMPLES } from './examples.ts';

describe('the worked examples of the published methods', () => {
  test.each(EXAMPLES)('$method gives what its source gives', ({ method, input, expected }) => {
    const before = JSON.stringify(input);
    expectClose(runMethod(findMethod(method), input), expected);
    expect(JSON.stringify(input)).toBe(before);
  });
});

describe('the catalogue', () => {
  test('names each method once, in snake case, with a source and a summary', () => {
    const names = METHODS.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    for (const { name, source, summary, version } of METHODS) {
      expect(name).toMatch(/^[a-z][a-z0-9]*(_[a-z0-9]+)*$/);
      expect(source.length).toBeGreaterThan(3);
      expect(summary).toMatch(/\.$/);
      expect(version).toBeGreaterThanOrEqual(1);
    }
  });

  test('has defaults that pass the limits of their own method', () => {
    for (const method of METHODS) {
      expect(methodParams(method, method.params as Record<string, unknown>)).toEqual(method.params);
    }
  });

  test('keeps parameters and input fields apart', () => {
    for (const { name, input, params } of METHODS) {
      const fields = Object.keys((input as { properties: object }).properties);
      expect(
        Object.keys(params as object).filter((key) => fields.includes(key)),
        name,
      ).toEqual([]);
    }
  });
});
