import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { compiledProgram } from '../support/program.ts';
import type { Measured } from './memory-program.ts';

const small = {
  vocab_size: 512,
  hidden_size: 128,
  intermediate_size: 344,
  num_hidden_layers: 2,
  num_attention_heads: 4,
};
const SHAPES: readonly (readonly [string, Measured])[] = [
  ['0.5 million parameters, 8 rows of 64', { sizes: small, rows: 8, length: 64 }],
  [
    '4 million parameters, 8 rows of 128',
    {
      sizes: {
        vocab_size: 2048,
        hidden_size: 256,
        intermediate_size: 688,
        num_hidden_layers: 4,
        num_attention_heads: 8,
      },
      rows: 8,
      length: 128,
    },
  ],
  ['2 layers with a vocabulary of 50,000', { sizes: { ...small, vocab_size: 50_000 }, rows: 8, length: 64 }],
  [
    'an adapter and recomputation',
    { sizes: { ...small, num_hidden_layers: 6 }, rows: 16, length: 128, adapter: true, recompute: true },
  ],
];

describe.skipIf(!existsSync('/proc/self/status'))('the estimate, measured in a process of its own', () => {
  it.each(SHAPES)('is near for %s', { timeout: 60_000 }, async (_, shape) => {
    const program = await compiledProgram(join(import.meta.dirname, 'memory-program.ts'));
    const run = await promisify(execFile)(process.execPath, [program, JSON.stringify(shape)]);
    const { peak, estimate } = JSON.parse(run.stdout) as { peak: number; estimate: number };
    expect(estimate / peak).toBeGreaterThan(0.6);
    expect(estimate / peak).toBeLessThan(1.7);
  });
});
