import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { cameByTab, focusStage } from "./focus.ts";
import { dialog } from "./state.ts";

/**
 * A window over the page. The browser keeps the focus inside and gives it back; where the window was opened by a click,
 * the item gets it, so that the next key is an answer.
 */
export function Dialog({ title, testid, children }: { title: string; testid?: string; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const element = ref.current;
    if (element && !element.open) element.showModal();
    const walked = cameByTab();
    return () => {
      element?.close();
      if (!walked) focusStage();
    };
  }, []);
  const close = () => (dialog.value = null);
  return (
    <dialog
      ref={ref}
      class="dialog"
      aria-label={title}
      data-testid={testid}
      onCancel={(event) => {
        event.preventDefault(); // closed by us, at once: the next key already belongs to the page
        close();
      }}
      onClose={() => ref.current?.isConnected && close()}
      onClick={(event) => event.target === ref.current && close()}
    >
      <div class="dialog-body">
        <header class="dialog-head">
          <h2>{title}</h2>
          <button type="button" class="quiet" aria-label="Close" onClick={close}>
            ✕
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}
