/** `troupe model merge`: a model and an adapter as one model. */
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { plainCommand } from '../command.ts';
import { print, printJson } from '../output.ts';
import { VERSION } from '../version.ts';

export function modelMergeCommand(model: Command): void {
  plainCommand(
    model
      .command('merge')
      .description('merge an adapter into the model it was trained on')
      .requiredOption('--model <dir>', 'the model it was trained on')
      .requiredOption('--adapter <dir>', 'directory with adapter_config.json and adapter_model.safetensors')
      .requiredOption('--out <dir>', 'directory to write; must not exist or be empty')
      .addHelpText('after', '\nExample:\n  troupe model merge --model ./base --adapter ./adapter --out ./merged'),
    async (_, flags) => {
      const [{ openModel }, { openAdapter }, { mergeAdapter }, { saveCheckpointAt }, { emptyMeta }] = await Promise.all(
        [
          import('../../trainer/model/model-directory.ts'),
          import('../../trainer/model/adapter-directory.ts'),
          import('../../trainer/model/lora.ts'),
          import('../../trainer/model/checkpoints/checkpoint.ts'),
          import('../../trainer/model/checkpoints/checkpoint-format.ts'),
        ],
      );
      const base = await openModel(resolve(String(flags.model)));
      const { adapter, weights, baseModel } = await openAdapter(resolve(String(flags.adapter)));
      const saved = await saveCheckpointAt(resolve(String(flags.out)), {
        config: base.config,
        weights: mergeAdapter(base.config, base.weights, adapter, weights),
        sideFiles: base.sideFiles,
        optimizer: null,
        state: null,
        meta: {
          ...emptyMeta,
          parent: base.id,
          step: base.meta.step,
          datasets: base.meta.datasets,
          code_version: VERSION,
        },
      });
      if (flags.json) {
        printJson({
          checkpoint_id: saved.id,
          directory: saved.dir,
          base: base.id,
          adapter: { r: adapter.r, alpha: adapter.alpha, targets: adapter.targets, base_model: baseModel },
        });
      } else print(`Model ${saved.id}, ${base.id} with its adapter of rank ${adapter.r}, written to ${saved.dir}`);
    },
  );
}
