/** The page: which view an address names, and how it is shown. A view calls only this server; the event `again` reads it once more. */
import { compare } from './compare.js';
import { docs } from './docs.js';
import { make, notice, status } from './elements.js';
import { episode } from './episode.js';
import { episodes } from './episodes.js';
import { sql } from './query.js';
import { releases } from './releases.js';
import { run, runs } from './runs.js';
import { schedules } from './schedules.js';

const main = document.querySelector('#main');

const PAGES = [
  [/^\/(?:episodes)?$/, episodes, 'Episodes'],
  [/^\/episodes\/(.+)$/, episode, 'Episode'],
  [/^\/releases$/, releases, 'Releases'],
  [/^\/runs$/, runs, 'Runs'],
  [/^\/runs\/(.+)$/, run, 'Run'],
  [/^\/compare$/, compare, 'Compare'],
  [/^\/schedules$/, schedules, 'Schedules'],
  [/^\/sql$/, sql, 'SQL'],
  [/^\/docs(?:\/(.+))?$/, docs, 'API'],
];

const NOWHERE = [/^/, () => [notice('There is no such page. ', make('a', { href: '#/' }, 'Episodes'))], 'Not found'];

let under = new AbortController();

const FOCUSED = 'a, button, input, textarea, [tabindex]';

/** `isAgain`: the view is on the page already, and keeps the focus where it was. */
async function show(isAgain = false) {
  under.abort();
  under = new AbortController();
  const { signal } = under;
  const [, path, query] = /^([^?]*)\??(.*)$/s.exec(location.hash.slice(1) || '/');
  const [pattern, page, title] = PAGES.find(([candidate]) => candidate.test(path)) ?? NOWHERE;
  for (const link of document.querySelectorAll('nav a')) {
    if (path.startsWith(link.hash.slice(1)) || (path === '/' && link.hash === '#/episodes'))
      link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  status.textContent = 'Loading …';
  main.setAttribute('aria-busy', 'true');
  try {
    document.title = `${title} · Troupe`;
    const found = pattern.exec(path)?.[1];
    const id = found === undefined ? undefined : decodeURIComponent(found);
    if (id !== undefined) document.title = `${id} · ${title} · Troupe`;
    const children = await page(signal, new URLSearchParams(query), id);
    if (signal.aborted) return;
    const held = isAgain ? [...main.querySelectorAll(FOCUSED)].indexOf(document.activeElement) : -1;
    main.replaceChildren(...children.flat(Infinity).filter(Boolean));
    status.textContent = '';
    if (held >= 0) main.querySelectorAll(FOCUSED)[held]?.focus({ preventScroll: true });
    if (isAgain) return;
    // What the address names within the view.
    const named = main.querySelector('[aria-current]');
    named?.focus({ preventScroll: true });
    named?.scrollIntoView({ block: 'start', behavior: 'instant' });
  } catch (error) {
    if (signal.aborted) return;
    const again = make('button', { type: 'button', onclick: () => show().then(() => main.focus()) }, 'Try again');
    main.replaceChildren(make('div', { class: 'notice error', role: 'alert' }, make('p', {}, error.message), again));
    status.textContent = '';
  } finally {
    if (!signal.aborted) main.removeAttribute('aria-busy');
  }
}

addEventListener('hashchange', () => {
  show().then(() => main.querySelector('[aria-current]') ?? main.focus());
});
addEventListener('again', () => show(true));
// Its fragment would be taken for the address of a view.
document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});
const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
document.querySelector('#zone').textContent = `Times are in the zone of this browser, ${timeZone}.`;
show();
