/**
 * `bench judge`: credit from tables to tables against reading and writing alone; the methods alone against the code of their papers;
 * and what grouping a task costs among many.
 */
import type { Bench } from './bench.ts';
import { similarCases } from './judge-similar.ts';
import { sourceCases } from './judge-sources.ts';
import { tableCases } from './judge-tables.ts';

export const bench: Bench = {
  name: 'judge',
  about:
    'credit for a million steps against reading and writing alone; methods alone against published code; grouping tasks',
  async run(settings) {
    return [...(await sourceCases(settings)), ...(await similarCases(settings)), ...(await tableCases(settings))];
  },
};
