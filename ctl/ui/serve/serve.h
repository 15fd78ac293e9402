/* ctl/ui/serve/serve.h -- `mtctl serve`. */
#ifndef MT_CTL_UI_SERVE_SERVE_H
#define MT_CTL_UI_SERVE_SERVE_H

int mt_command_serve(int argc, char **argv);

#endif
