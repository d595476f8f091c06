/** The data card of a folder of rows: what Hugging Face datasets reads at its head, and what people read below it. */
import { stringify } from 'yaml';
import type { Unit } from './columns.ts';
import type { FunnelStage, Manifest } from './manifest.ts';
import { MOST_NAMED, type Provenance } from './provenance.ts';

export type CardFile = { readonly split: string; readonly name: string; readonly rows: number };

/**
 * The head with `configs`, by which `load_dataset(folder)` gives every split that has rows, then the body.
 * @param files the files that hold rows, in the order of the splits
 */
export function cardText(manifest: Manifest, files: readonly CardFile[], sections: readonly string[]): string {
  const data = files.filter(({ rows }) => rows > 0).map(({ split, name }) => ({ split, path: name }));
  const head = {
    pretty_name: manifest.name,
    ...(manifest.recipe.license === undefined ? {} : { license: manifest.recipe.license }),
    ...(data.length > 0 ? { configs: [{ config_name: 'default', data_files: data }] } : {}),
  };
  const counts = files.map(({ split, rows, name }) => `| ${split} | ${rows} | \`${name}\` |`);
  return `---\n${stringify(head)}---\n\n${[
    `# ${manifest.name}`,
    ...sections,
    ['| split | rows | file |', '| --- | ---: | --- |', ...counts].join('\n'),
    `## How rows were chosen\n\n${manifest.funnel.map((stage) => `- ${stageText(stage)}`).join('\n')}`,
    `## Origin and licence\n\n${originText(manifest)}`,
  ].join('\n\n')}\n`;
}

const ROW: Readonly<Record<Unit, string>> = {
  step: 'one answer of a model with everything before it',
  group: 'one answer of a model with everything before it',
  episode: 'a whole episode',
  pair: 'a preferred and a rejected answer to the same messages',
  triplet: 'a query with the team that played it',
  branch: 'a branch of a conversation: all messages from the first to its last answer, and which answers are learnt',
};

/** The card of a frozen dataset: Parquet is read where there is some, else Arrow. */
export function frozenCard(manifest: Manifest): string {
  const { recipe, columns, rows } = manifest;
  const ending = recipe.layout.includes('parquet') ? 'parquet' : 'arrow';
  const files = Object.entries(rows).map(([split, count]) => ({
    split,
    name: `${split}.${ending}`,
    rows: count,
  }));
  return cardText(manifest, files, [
    `A row is ${ROW[recipe.unit]}. Messages are lists of structs as in the chat API; \`troupe dataset export\` writes them for trainers.`,
    `Columns: ${columns.map(({ name }) => code(name)).join(', ')}.`,
  ]);
}

const code = (text: string): string => `\`${text.replaceAll('`', "'").replaceAll('\n', ' ')}\``;

function stageText({ name, of, before, after, dropped }: FunnelStage): string {
  const kept =
    before !== null && after > before
      ? `${after - before} ${of} more by`
      : before === null
        ? `${after} ${of} pass`
        : `${after} of ${before} ${of} pass`;
  const examples = dropped.length > 0 ? `; dropped, for example: ${dropped.map(code).join(', ')}` : '';
  return `${kept} ${code(name)}${examples}.`;
}

/** What is not recorded is stated as unknown, never guessed. */
function originText({ dataset_id, code_version, methods, recipe, provenance }: Manifest): string {
  const judged = [...methods.verdicts, methods.reward, methods.credit].filter((method) => method !== null);
  const named = judged.map(({ method, version }) => `${code(method)} version ${version}`);
  const stated = (value: string | undefined) =>
    value === undefined ? 'unknown' : `${code(value)} (as the recipe says)`;
  return [
    `Frozen by Troupe ${code_version} as dataset ${code(dataset_id)}. Every row comes from recorded model calls.`,
    named.length === 0 ? 'No method judged the rows.' : `Judged by ${named.join(', ')}.`,
    '',
    `- Origin: ${stated(recipe.origin)}`,
    `- Licence: ${stated(recipe.license)}`,
    ...(provenance ? recordedText(provenance) : []),
  ].join('\n');
}

function recordedText({
  origins,
  models = [],
  sources = [],
  failed,
  test,
  redacted,
  erased,
}: Provenance): readonly string[] {
  const lines = origins.slice(0, MOST_NAMED).map(({ origin, license, episodes }) => {
    const known = (value: string | null) => (value === null ? 'unknown' : code(value));
    return `  - ${episodes} episodes: origin ${known(origin)}, licence ${known(license)}`;
  });
  const more = origins.length > MOST_NAMED ? [`  - and ${origins.length - MOST_NAMED} others`] : [];
  const marks = Object.entries(redacted).map(([rule, count]) => `${count} by ${code(rule)}`);
  const { erasures, episodes, events, chosen } = erased;
  const among = chosen === undefined ? '' : `, ${chosen} of them episodes that rows were chosen from`;
  const counted = (title: string, of: readonly (readonly [string | null, number])[]): readonly string[] =>
    of.length === 0
      ? []
      : [
          title,
          ...of
            .slice(0, MOST_NAMED)
            .map(([one, answers]) => `  - ${answers} answers: ${one === null ? 'unknown' : code(one)}`),
          ...(of.length > MOST_NAMED ? [`  - and ${of.length - MOST_NAMED} others`] : []),
        ];
  return [
    ...counted(
      '- Generated by:',
      models.map(({ model, answers }) => [model, answers]),
    ),
    ...counted(
      '- Recorded by:',
      sources.map(({ source, answers }) => [source, answers]),
    ),
    ...(failed === undefined ? [] : [`- Answers from episodes that failed: ${failed}`]),
    ...(test === undefined ? [] : [`- Answers from tasks whose split is test: ${test}`]),
    '- As recorded with the tasks and episodes that rows were chosen from:',
    ...(lines.length === 0 ? ['  - no episode'] : [...lines, ...more]),
    `- Redacted before recording: ${marks.length === 0 ? 'no mark is in the rows' : `marks in the rows, ${marks.join(', ')}`}`,
    `- Erased on request: ${erasures === 0 ? 'nothing in this project' : `${erasures} erasures in this project, which took the text of ${events} events of ${episodes} episodes${among}`}`,
  ];
}
