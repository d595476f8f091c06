/** `troupe filter`: a filter as JSON and as SQL. */
import type { Command } from 'commander';
import { plainCommand } from '../command.ts';
import { print, printJson } from '../output.ts';

export function addTo(program: Command): void {
  plainCommand(
    program
      .command('filter')
      .argument('<filter>', 'as in a recipe: a text, or a JSON tree')
      .addHelpText(
        'after',
        "\nExamples:\n  troupe filter 'role = coder and reward >= 0.5'\n  troupe filter 'count(tool_calls where error) = 0' --json",
      ),
    async ([written], flags) => {
      const [{ showSql }, { filterText }, { readFilter }] = await Promise.all([
        import('../../store/filter/select.ts'),
        import('../../store/filter/filter-text.ts'),
        import('../../store/filter/episode-filter.ts'),
      ]);
      const filter = readFilter(written!, 'filter');
      if (flags.json) printJson({ filter, text: filterText(filter), sql: showSql(filter) });
      else print(`${filterText(filter)}\n\n${JSON.stringify(filter, null, 2)}\n\n${showSql(filter)}`);
    },
  );
}
