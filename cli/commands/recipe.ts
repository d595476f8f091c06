/** `troupe recipe`: the JSON Schema of recipes. */
import type { Command } from 'commander';
import { plainCommand } from '../command.ts';
import { printJson } from '../output.ts';

export function addTo(program: Command): void {
  plainCommand(
    program.command('recipe').addHelpText('after', '\nExample:\n  troupe recipe > recipe.schema.json'),
    async () => {
      const { recipeSchema } = await import('../../store/datasets/recipe.ts');
      printJson(recipeSchema);
    },
  );
}
