/** Models as directories: a new small one, what one holds, and copies of it in other shapes. */
import type { Command } from 'commander';
import { modelExportCommand } from './model-export.ts';
import { modelInfoCommand } from './model-info.ts';
import { modelMergeCommand } from './model-merge.ts';
import { modelNewCommand } from './model-new.ts';

export function addTo(program: Command): void {
  const model = program.command('model').addHelpText('after', '\nExample:\n  troupe model info ./checkpoint');
  modelNewCommand(model);
  modelInfoCommand(model);
  modelMergeCommand(model);
  modelExportCommand(model);
}
