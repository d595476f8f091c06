/** The list of episodes and its filters. */
import { ask, count, cut, episodeLink, make, notice, numbers, pagedTable, when } from './elements.js';

const FILTERS = ['task_id', 'group_id', 'outcome', 'filter'];

export async function episodes(signal, query) {
  const filters = new URLSearchParams(
    [...query].filter(([name, value]) => value !== '' && (FILTERS.includes(name) || name.startsWith('tag.'))),
  );
  const path = `/v1/episodes?${new URLSearchParams([...filters, ['limit', 50]])}`;
  let first;
  try {
    first = await ask(path, signal);
  } catch (error) {
    // A filter that cannot be read stays in its box, to be mended.
    if (error.name === 'AbortError' || !filters.has('filter')) throw error;
    return [make('h2', {}, 'Episodes'), filterForm(filters), notice(error.message)];
  }
  const list = pagedTable({
    first,
    page: (after) => ask(`${path}&${new URLSearchParams({ after })}`, signal),
    label: 'Episodes',
    head: ['Episode', 'Task', 'Outcome', ...['Reward', 'Calls', 'Steps', 'Tools', 'Feedback'].map(numbers), 'Started'],
    row: episodeRow,
  });
  const isFiltered = [...filters].length > 0;
  const empty = isFiltered
    ? notice('No episode matches. ', make('a', { href: '#/episodes' }, 'Show all'))
    : notice(
        'No episodes yet. Send events to ',
        make('code', {}, 'POST /v1/events'),
        ', ask ',
        make('code', {}, 'POST /v1/chat/completions'),
        ', or run ',
        make('code', {}, 'troupe import'),
        '.',
      );
  const warnings = (first.warnings ?? []).map((warning) => notice(warning));
  return [make('h2', {}, 'Episodes'), filterForm(filters), ...warnings, first.items.length === 0 ? empty : list];
}

function filterForm(filters) {
  const fields = FILTERS.map((name) =>
    make(
      'label',
      {},
      `${name.replace('_id', '')} `,
      make('input', {
        name,
        value: filters.get(name) ?? '',
        size: name === 'filter' ? 44 : 14,
        placeholder: name === 'filter' ? 'reward >= 0.5 and count(tool_calls where error) = 0' : null,
      }),
    ),
  );
  const tag = [...filters].find(([name]) => name.startsWith('tag.'));
  fields.push(
    make(
      'label',
      {},
      'tag ',
      make('input', {
        name: 'tag',
        size: 18,
        placeholder: 'phase=rl',
        value: tag ? `${tag[0].slice(4)}=${tag[1]}` : '',
      }),
    ),
  );
  const submit = (event) => {
    event.preventDefault();
    const chosen = new URLSearchParams();
    for (const [name, value] of new FormData(event.target)) {
      if (value === '') continue;
      const split = value.indexOf('=');
      if (name !== 'tag') chosen.set(name, value);
      else if (split > 0) chosen.set(`tag.${value.slice(0, split)}`, value.slice(split + 1));
    }
    location.hash = `#/episodes?${chosen}`;
  };
  return make(
    'form',
    { onsubmit: submit, role: 'search', 'aria-label': 'Filter episodes' },
    fields,
    make('button', { type: 'submit' }, 'Filter'),
  );
}

const episodeRow = (row) => [
  episodeLink(row.episode_id),
  make('span', { class: 'long', title: row.task_id }, cut(row.query ?? row.task_id ?? '–', 120)),
  row.outcome ?? (row.closed ? 'closed' : 'open'),
  ...[row.reward, row.calls, row.steps, row.tool_calls, row.feedback].map(count),
  when(row.started_at ?? row.last_at),
];
