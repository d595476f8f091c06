/** A model in a larger shape: it costs more and says the same. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { grownModel } from '../../bench/grown-model.ts';
import { parameterCount, SIZES, writeModel } from '../../bench/models.ts';
import { openModelForIds } from '../../trainer/model/model-directory.ts';
import { Policy } from '../../trainer/sample/policy.ts';

it('a model in a larger shape gives every token the probability that the small one gives it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'troupe-grown-'));
  try {
    const small = await writeModel(folder, SIZES[0]!);
    const { dir, config } = await grownModel(small, join(folder, 'grown'), {
      ...{ hidden_size: 256, intermediate_size: 400, num_hidden_layers: 3 },
    });
    const [a, b] = await Promise.all([small, dir].map(probabilities));
    for (const [i, value] of a!.entries()) expect(b![i]).toBeCloseTo(value, 4);
    expect(parameterCount(config)).toBeGreaterThan(2 * parameterCount(SIZES[0]!.config));
  } finally {
    rmSync(folder, { recursive: true });
  }
});

async function probabilities(dir: string): Promise<readonly number[]> {
  const open = await openModelForIds(dir);
  const policy = await Policy.load(open.config, open.weights);
  const [row] = await policy.logprobs([{ promptIds: [5, 9, 300], tokenIds: [17, 4, 255, 4, 8] }]);
  await policy.close();
  return row!;
}
